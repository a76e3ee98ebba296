"""Chooses instance types by price: the market, the lower bound, packing by price and the planner."""
