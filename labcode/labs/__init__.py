"""Labs: controls and a `compute`, from which come the live view, the page's sliders and the tests."""
