"""Outputs at new points: the sites' experts predict them, and the fusion center combines."""

from consilience.predict.interface import SitePredictions

SITES = SitePredictions("where the measurements are", points_at_center=True)
