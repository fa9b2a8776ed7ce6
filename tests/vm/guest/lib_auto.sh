# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What the guest tests of writeback_auto share, after lib.sh: a device that has it, and data for it.

data() { dd if="${1:-/dev/zram0}" bs=1M count=24 iflag=direct 2>/dev/null | md5sum; }
write() { dd if=/tmp/data of="${1:-/dev/zram0}" bs="${2:-1M}" oflag=direct; }
fresh() { # compressed_writeback LIMIT [DEVICE]
	put 1 "$(z 0 reset)"
	put "$1" "$(z 0 compressed_writeback)" && put "${3:-/dev/loop0}" "$(z 0 backing_dev)" &&
		put 1 "$(z 0 writeback_auto)" && put "$2" "$(z 0 mem_limit)" && put 256M "$(z 0 disksize)"
}

# In MiB: 0 to 3 text; 4 to 19 random; 20 to 21 text; 22 to 23 zeros.
text_pages 1024 >/tmp/data
dd if=/dev/urandom bs=1M count=16 2>/dev/null >>/tmp/data
text_pages 512 >>/tmp/data
dd if=/dev/zero bs=1M count=2 2>/dev/null >>/tmp/data
want=$(md5sum </tmp/data)
