#!/bin/sh
# Prints orders as JSON lines: make_orders.sh [HOW_MANY]
#
# A few users have most of them. One in 25 is slow to bill, one in 40 fails at first, and a few can never be billed.
exec awk -v orders="${1:-1000}" 'BEGIN {
  srand(7)
  for (order = 1; order <= orders; ++order) {
    user = int(exp(rand() * log(200)))          # user 1 has about one in eight
    amount = 1 + int(rand() * 900)
    if (order % 251 == 100) amount = 0          # nothing to bill: poison
    card = order % 40 == 7 ? "flaky" : order % 25 == 3 ? "slow" : "fine"
    printf "{\"order\":%d,\"user\":\"u%d\",\"amount\":%d,\"card\":\"%s\"}\n", order, user, amount, card
  }
}'
