#!/bin/sh
# A handler for `keyway run`: bills the order that stands on standard input.
#
# Exit 0: done. 65: it can never be billed, so do not try again. Anything else: try again later.
read -r order
case $order in
  *'"amount":0,'*)
    echo "order has no amount" >&2
    exit 65
    ;;
  *'"card":"flaky"'*)
    [ "$KEYWAY_ATTEMPT" -gt 1 ] || exit 1
    ;;
  *'"card":"slow"'*)
    sleep 0.2
    ;;
esac
sleep 0.01
