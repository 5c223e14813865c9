"""The ServerApp: run configuration to scenario to strategy to results directory."""
