"""The mathematics of BC3E (Acharya, Hruschka and Ghosh 2011): E-step, M-step, acceleration."""
