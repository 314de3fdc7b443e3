#!/bin/sh
# Install Debian's Chromium, in which the tests look at the page of `replay view`. Where that is not possible, one line
# says what is left out.
set -eu
command -v chromium >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	export DEBIAN_FRONTEND=noninteractive
	{ apt-get -qq update && apt-get -qq -y --no-install-recommends install chromium; } >/dev/null 2>&1 && exit 0
fi
echo "Chromium is not installed: the tests of replay view in a browser are left out"
