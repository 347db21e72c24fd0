#!/bin/sh
# Says on one FIFO that it runs, and ends when it is told to on another.
#
#   usage: hold.sh RUNS END
echo >"$1"
read -r _ <"$2"
