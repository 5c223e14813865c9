"""The worlds of fair clustering from coresets (Schmidt, Schwiegelshohn and Sohler; papers/fair_coresets.txt).

=================  ==============================================  ================================================
scenario           of the paper                                    whose rows, and their colours
=================  ==============================================  ================================================
coreset-adult      section 4, Figures 2 and 4                      48,842 people of the US census, by sex
coreset-diabetes   section 4, Figures 2 to 4                       101,763 stays in hospital, by gender
coreset-bank       section 4, Figures 2 and 4                      calls of a bank, by being married
coreset-synthetic  none; Figure 3's sizes and beyond               made: fair clusters that are known
=================  ==============================================  ================================================

The paper names gender for bank and marital status for diabetes: it is the other way round.

The first three are tables, whose rows differ in what they are about (``part``); in each, all rows may be sensitive to
other columns (`sensitive`), and be dealt out to any number of sites. The paper's algorithms need two colours of equal
numbers, so the larger colour is subsampled, as the paper does.
"""

from scenarios.coreset import real_data as measured
from scenarios.coreset import synthetic as drawn

__all__ = ["drawn", "measured"]
