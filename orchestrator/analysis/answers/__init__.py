"""Answers: values, statistics and wording shared by the questions."""
