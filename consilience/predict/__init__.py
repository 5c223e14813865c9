"""Predictions of new rows with the fusion center's result of a finished run: ``consilience predict`` (docs/predict.md).

`consilience.predict.interface` says what a protocol's module of this room has.
"""
