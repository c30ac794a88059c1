"""How pictures look, whoever draws them: colours and fonts, the axis of time, and lines with no more points than are seen."""
