"""The fusion center: it asks the sites, fuses their answers, and decides when to stop."""
