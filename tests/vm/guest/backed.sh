#!/bin/sh
# Pages on a backing device that is no friend: corrupt blocks, pieces of pages, a device on another,
# and removal and unloading while pages are on their way.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=1G timeout=240 progs=pieces,swapcheck,dmtable tools=mkswap,swapon,swapoff
. /lib.sh
load num_devices=2 || { not_ok "zram loads"; exit 1; }
need_loop "writeback" writeback

control=/sys/class/zram-control
back() { put "$2" "$(z "$1" writeback)"; } # DEV WORDS
fresh() { # compressed_writeback DEVICE [ALGORITHM]
	put 1 "$(z 0 reset)"; put "$1" "$(z 0 compressed_writeback)"
	put "$2" "$(z 0 backing_dev)"; put "${3:-lzo-rle}" "$(z 0 comp_algorithm)"
	put algo=zstd "$(z 0 recomp_algorithm)"
	put 64M "$(z 0 disksize)" && dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct 2>/dev/null
}

# In MiB: 0 to 3 text; 4 to 7 hexadecimal digits; 8 to 11 random; 12 to 15 zeros.
text_pages 1024 >/tmp/data
dd if=/dev/urandom bs=1M count=2 2>/dev/null | od -An -v -tx1 | tr -d ' \n' >>/tmp/data
dd if=/dev/urandom bs=1M count=4 2>/dev/null >>/tmp/data
dd if=/dev/zero bs=1M count=4 2>/dev/null >>/tmp/data
loop 64

# Some are here and some there, made by two codecs, in one request, at any place in memory.
for packed in 0 1; do
	check "mode $packed: a device" fresh $packed /dev/loop0
	put type=huge "$(z 0 recompress)"
	check "pages 2 MiB on" back 0 "page_indexes=$((2 * slots))-$((11 * slots))"
	# In-tree gets those wrong with pages of 4 KiB, backed or not.
	! is_ebb || check "pieces of pages, read and written" pieces /dev/zram0 /tmp/data
	invariants 0
done

path=$(printf '/tmp/\033[7m'); ln -s /dev/loop0 "$path"
check "a device by a path of any bytes" fresh 0 "$path"
! is_ebb || check "which the log does not repeat" sh -c "dmesg | grep -q 'pages go to loop0$'"

# What comes back may be anything; it is an error or wrong bytes, and no harm to the kernel.
for c in $(codecs); do
	check "$c: a device" fresh 1 /dev/loop0 "$c"
	back 0 "page_indexes=0-$((8 * slots - 1))"
	i=0
	while [ $i -lt 100 ]; do
		dd if=/dev/urandom of=/tmp/back bs=1 count=2 seek=$((i * pagesize + 5 + i * 3)) \
			conv=notrunc 2>/dev/null
		i=$((i + 1))
	done
	dd if=/dev/zram0 of=/dev/null bs="$pagesize" count=$((8 * slots)) conv=noerror iflag=direct 2>/dev/null
	dd if=/dev/urandom of=/tmp/back bs=1M count=8 conv=notrunc 2>/dev/null
	refuse "$c: all is noise" dd if=/dev/zram0 of=/dev/null bs=1M count=8 iflag=direct
	invariants 0
done

# A device on a device: the lower one's reads are asked for by the upper one's.
for packed in 0 1; do
	put 1 "$(z 0 reset)"; put 1 "$(z 1 reset)"; loop 200
	put $packed "$(z 1 compressed_writeback)"; put /dev/loop0 "$(z 1 backing_dev)"; put 300M "$(z 1 disksize)"
	put $packed "$(z 0 compressed_writeback)"; put /dev/zram1 "$(z 0 backing_dev)"; put 1G "$(z 0 disksize)"
	mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
	: >/tmp/go
	while [ -e /tmp/go ]; do
		for d in 0 1; do put all "$(z $d idle)"; back $d idle; done
		sleep 0.1
	done & writer=$!
	check "mode $packed: swap on a stack of two" swapcheck --mb 128 --procs 2 --passes "$SCALE" --forks 1
	rm -f /tmp/go; wait $writer
	swapoff /dev/zram0
	refuse "the lower one is in use" put 1 "$(z 1 reset)"
	invariants 0
	put 1 "$(z 0 reset)"
	check "and is not any more" put 1 "$(z 1 reset)"
done

modprobe dm-mod 2>/dev/null; modprobe dm-delay 2>/dev/null

# One block after the other fails: each write, each read, a page of its own.  In-tree has other
# blocks.
count=8 first=$((4 * slots - 4))        # pages; text, and digits from the 5th on
sectors=$((64 * 2048)) block=$((pagesize / 512))
whole() { dmtable back $sectors linear /dev/loop0 0 >/dev/null; }
hole() { # BLOCK
	_after=$((($1 + 1) * block))
	if [ "$1" = 0 ]; then
		dmtable back $block error , $((sectors - _after)) linear /dev/loop0 $_after
	else
		dmtable back $(($1 * block)) linear /dev/loop0 0 , $block error , \
			$((sectors - _after)) linear /dev/loop0 $_after
	fi >/dev/null
}
# How many of the pages are errors, and how many others are not what was written.
unread() {
	_i=0 _errors=0 _wrong=0
	while [ $_i -lt $count ]; do
		dd if=/tmp/data of=/tmp/was bs="$pagesize" skip=$((first + _i)) count=1 2>/dev/null
		if ! dd if=/dev/zram0 of=/tmp/is bs="$pagesize" skip=$((first + _i)) count=1 \
			iflag=direct 2>/dev/null; then
			_errors=$((_errors + 1))
		elif ! cmp -s /tmp/was /tmp/is; then
			_wrong=$((_wrong + 1))
		fi
		_i=$((_i + 1))
	done
	echo "$_errors $_wrong"
}
# Backed slots, and whether bd_stat says the same.
backed() { _n=$(flags w); echo "$_n $(($(bd 1) - _n * units))"; }
if [ -e /dev/mapper/control ] && is_ebb; then
	range="page_indexes=$first-$((first + count - 1))"
	for packed in 0 1; do
		n=$(dmtable back $sectors linear /dev/loop0 0)
		wrote= read= left= again= bad= i=0
		while [ $i -lt $count ]; do
			fresh $packed "/dev/dm-$n"
			hole $i
			back 0 "$range" || wrote="$wrote$i "
			left="$left$(backed), $(unread); "
			whole
			back 0 "$range" && again="$again$(backed); "
			# Another block than that one has a page by now.
			hole $(((i + 1) % count))
			read="$read$(unread); "
			whole
			bad="$bad$(unread); $(cat /sys/kernel/debug/zram/zram0/check); "
			i=$((i + 1))
		done
		of_each() { _s= _t=0; while [ $_t -lt $count ]; do _s="$_s$1"; _t=$((_t + 1)); done; echo "$_s"; }
		equal "mode $packed: each write that fails is said" "$wrote" "0 1 2 3 4 5 6 7 "
		equal "its page stays, the others go, and all read as they were" "$left" \
			"$(of_each "$((count - 1)) 0, 0 0; ")"
		equal "it goes once it is well" "$again" "$(of_each "$count 0; ")"
		equal "each read that fails is one page's" "$read" "$(of_each "1 0; ")"
		equal "which is there once it is well; every invariant holds" "$bad" \
			"$(of_each "0 0; ok; ")"

		# All of it is gone.
		fresh $packed "/dev/dm-$n"
		back 0 "$range"
		dmtable back $sectors error >/dev/null
		failed=$(awk '{ print $1 }' "$(z 0 io_stat)")
		equal "a device that is gone: its pages are errors" "$(unread)" "$count 0"
		refuse "so are pieces of them" pieces /dev/zram0 /tmp/data
		check "which are counted" [ "$(awk '{ print $1 }' "$(z 0 io_stat)")" -gt "$failed" ]
		refuse "no more can be written" back 0 "page_indexes=0-3"
		equal "which stay" "$(backed)" "$count 0"
		check "a page is written anew" dd if=/tmp/data of=/dev/zram0 bs="$pagesize" count=1 \
			skip=$first seek=$first conv=notrunc oflag=direct
		check "others are freed" blkdiscard -o $(((first + 1) * pagesize)) -l $((2 * pagesize)) /dev/zram0
		equal "and give their blocks back" "$(backed) $(unread)" "$((count - 3)) 0 $((count - 3)) 2"
		invariants 0
		blkdiscard /dev/zram0
		equal "no block is left" "$(backed)" "0 0"
		invariants 0
		put 1 "$(z 0 reset)"
		dmtable back
	done
fi

# A slow one: who removes or unloads waits for what is on its way.  In-tree writes on to the end.
if [ -e /dev/mapper/control ] && is_ebb; then
	n=$(dmtable back $((64 * 2048)) delay /dev/loop0 0 20)
	for what in "put 0 $control/hot_remove" "modprobe -r zram"; do
		fresh 0 "/dev/dm-$n"; put 2 "$(z 0 writeback_batch_size)"
		back 0 huge & one=$!
		back 0 huge & two=$!
		put type=huge "$(z 0 recompress)" & three=$!
		sleep 0.5
		t=$(date +%s)
		check "$what meanwhile" $what
		check "takes no longer" [ $(($(date +%s) - t)) -le 10 ]      # all of it: 20 s and more
		wait $one; wait $two; wait $three
		[ -e $control ] || modprobe zram
		[ -e /sys/block/zram0 ] || cat $control/hot_add >/dev/null
	done

	# A write of three seconds is on its way: who waits for the removal can be killed meanwhile.
	killed_meanwhile() { # COMMAND...: true if it ended before the removal did
		fresh 0 "/dev/dm-$n"
		back 0 huge & one=$!; sleep 0.5
		put 0 $control/hot_remove & removal=$!; sleep 0.2
		"$@" >/dev/null & who=$!; sleep 0.2
		kill -9 $who; wait $who 2>/dev/null; _rc=$?
		kill -0 $removal 2>/dev/null && _early=yes || _early=no
		wait $removal $one 2>/dev/null
		until [ -e /sys/block/zram0 ]; do cat $control/hot_add >/dev/null; done
		note "it ended with $_rc; the removal was under way: $_early"
		[ $_early = yes ] && [ $_rc = 137 ]
	}
	put 1 "$(z 0 reset)"; dmtable back
	n=$(dmtable back $((64 * 2048)) delay /dev/loop0 0 0 /dev/loop0 0 3000)
	check "who waits in hot_add can be killed" killed_meanwhile cat $control/hot_add
	check "who waits in hot_remove can be killed" killed_meanwhile put 7 $control/hot_remove
	put 1 "$(z 0 reset)"; dmtable back
fi
finish_loop
