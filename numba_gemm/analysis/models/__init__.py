"""Models of a product on a device: roofline, traffic, occupancy, waves, and what `explain` makes of them."""
