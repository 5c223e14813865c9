"""New rows predicted by what the fusion center holds of a finished run: ``consilience predict`` (docs/predict.md).

`consilience.predict.interface` says what a protocol's module of this room has.
"""
