"""The ServerApp of the fusion center: resolve, build, run, evaluate, write."""
