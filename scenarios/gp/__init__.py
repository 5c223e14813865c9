"""Scenarios of Gaussian process experts (Jalali and Kasneci 2022): every site has rows of its own.

=================  ==========================  ===========================================================
scenario           in the paper                outcome, training rows, experts
=================  ==========================  ===========================================================
gp-synthetic       eq. 9, Figures 9 to 11      a synthetic curve of one input, 3000 rows, 10 to 20 experts
gp-concrete        Figures 2 and 7, Table I    strength of concrete, 927 rows, 5 to 10 experts
gp-pumadyn         Table II                    acceleration of a robot arm, 7168 rows, 10 to 20 experts
gp-airfoil         Tables IV and V             noise of airfoils, 1203 rows, 5 experts
gp-parkinsons      Tables IV and V             severity of Parkinson's disease, 5000 rows, 10 experts
gp-pole            Tables IV and V             pole telecommunication, 10,000 rows, 10 experts
gp-protein         Tables IV and V             error of protein structures, 40,000 rows, 70 experts
gp-sarcos          Tables IV and V             torque of a robot arm, 44,484 rows, 72 experts
gp-song            Tables IV and V             year of a song, 100,000 rows, 80 experts
gp-cancer          not in the paper            malignant or benign, 400 rows, 5 experts
=================  ==========================  ===========================================================

Each is a table, whose rows differ in the rule of aggregation and the gate; rows with the same experts have the same
shards. The rows are drawn by seed, since the paper does not publish its draws: expect agreement only within the spread
of such draws. As in the paper, k-means splits the training rows into experts. The experts go to the sites in
turn. The fusion center holds the test rows (`Scenario.queries`).

Not reproduced are the paper's times, and Figure 8, which compares softmax with a sigmoid, and mini-batches of different
size, in training the network (here it is softmax and all rows).
"""

from scenarios.gp import real_data, synthetic

__all__ = ["real_data", "synthetic"]
