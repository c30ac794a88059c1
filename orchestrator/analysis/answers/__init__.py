"""Answers: values, statistics and wording that questions share."""
