"""Computed answers to the exercises, a module a chapter; see `labcode.course.exercises`."""
