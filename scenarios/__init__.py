"""Scenarios: reproducible worlds, with data, their split over sites, parameters and published results."""
