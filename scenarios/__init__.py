"""Named, reproducible worlds: data, how they are split over sites, parameters, published figures."""
