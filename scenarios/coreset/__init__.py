"""Scenarios of fair clustering (Schmidt, Schwiegelshohn and Sohler 2018).

=================  ==============================================  ================================================
scenario           in the paper                                    rows, and their groups
=================  ==============================================  ================================================
coreset-adult      section 4, Figures 2 and 4                      48,842 people of the US census, by sex
coreset-diabetes   section 4, Figures 2 to 4                       101,763 hospital stays, by gender
coreset-bank       section 4, Figures 2 and 4                      calls of a bank, by being married
coreset-synthetic  none; Figure 3's sizes and beyond               synthetic, in known fair clusters
=================  ==============================================  ================================================

The paper names gender for bank and marital status for diabetes: it is the other way round.

The first three are tables. Their rows differ in what they measure (``part``). In each of them other columns may be
sensitive (`sensitive`), and the rows may be split over any number of sites. The paper's algorithms need two groups of
equal numbers, so the larger group is subsampled, as in the paper.
"""

from scenarios.coreset import real_data, synthetic

__all__ = ["real_data", "synthetic"]
