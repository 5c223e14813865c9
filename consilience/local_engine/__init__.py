"""The local engine: the ServerApp and all simulated sites in this process, without Ray, SuperLink or ports."""
