"""Pure mathematics that sites and fusion center share: arrays in, arrays out, no Flower."""
