"""Classes of new instances: each site computes those of its own."""

from consilience.predict.interface import SitePredictions

SITES = SitePredictions("where the new instances are")
