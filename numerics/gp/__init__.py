"""Gaussian process experts: kernels, likelihood, gates, and the rules that combine the experts' predictions.

All modules work in standardized units: the pooled mean is subtracted, and the result is divided by the pooled standard
deviation. Source: Jalali and Kasneci (2022).
"""
