"""Outcomes of new entities: each site's agent predicts from its columns."""

from consilience.predict.interface import SitePredictions

SITES = SitePredictions("where models and new rows are")
