"""Gaussian process experts: kernels, likelihood, gates and the rules that join the experts' predictions.

All of it works in standardised units, inputs and outputs less their pooled mean and over their pooled deviation.
Source: Jalali and Kasneci (2022).
"""
