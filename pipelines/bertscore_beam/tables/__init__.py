"""Baseline tables side by side: open them, compare them layer by layer, draw the result.

This room reads finished tables. It knows neither Beam nor models nor how a table is made.
"""
