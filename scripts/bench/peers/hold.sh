#!/bin/sh
# Reports on one FIFO that it runs, and ends when it reads a line from another.
#
#   usage: hold.sh RUNS END
echo >"$1"
read -r _ <"$2"
