// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_rocksdb.cc - the plugin's calls, without a database: the cases of RocksDB's own
 * compressed_secondary_cache_test that ask for no insides of theirs, and what is ours; prints TAP.
 *
 * mock_cache.h is the primary cache, so that nothing of librocksdb runs in more than one thread:
 * ThreadSanitizer does not see what that does.
 */
#include <atomic>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <rocksdb/convenience.h>

#include "mock_cache.h"
#include "tap.h"

using namespace ebb_test;
using rocksdb::ConfigOptions;
using rocksdb::SecondaryCache;

namespace {

Blocks from_text(const std::string &text)
{
	Blocks blocks;
	Status s = SecondaryCache::CreateFromString(ConfigOptions(), text, &blocks);

	check(s.ok() && blocks, text + ": " + s.ToString());
	return blocks;
}

std::string refusal(const std::string &text)
{
	Blocks blocks;
	Status s = SecondaryCache::CreateFromString(ConfigOptions(), text, &blocks);

	/* By an id, RocksDB itself leaves a cache that was never opened. */
	check(!s.ok(), text + " was not refused");
	check(s.IsInvalidArgument() || s.IsIOError(), s.ToString());
	return s.ToString();
}

void says(const std::string &text, const char *what)
{
	std::string said = refusal(text);

	check(said.find(what) != std::string::npos, text + " said: " + said);
}

std::size_t used(const Blocks &blocks)
{
	return stat_of(blocks).used_bytes;
}

/* ---- made by a text ---- */

void a_uri_and_an_id_make_the_same_cache()
{
	Blocks uri = from_text("ebb://capacity=16M;codec=zstd;level=5;admission=second-miss");
	Blocks id = from_text("id=ebb;capacity=16777216;codec=zstd;level=5;admission=second-miss");
	std::size_t capacity = 0;
	std::string mismatch;

	check(uri->GetCapacity(capacity).ok() && capacity == 16 << 20, std::to_string(capacity));
	check(id->AreEquivalent(ConfigOptions(), uri.get(), &mismatch), mismatch);
	check(uri->IsInstanceOf("ebb") && uri->IsInstanceOf("EbbSecondaryCache"), uri->Name());
}

void what_it_is_as_text_makes_it_again()
{
	Blocks first = from_text("ebb://capacity=3G;codec=lz4hc;level=default;exclusive=false");
	Blocks second = from_text(first->ToString(ConfigOptions()));
	std::string mismatch;

	check(second->AreEquivalent(ConfigOptions(), first.get(), &mismatch), mismatch);
	check(first->GetPrintableOptions().find("codec : lz4hc") != std::string::npos,
	      first->GetPrintableOptions());
}

void what_cannot_be_is_named_and_told_what_can()
{
	says("ebb://capacity=1G;codec=snappy", "codec=snappy: there is no such codec; there are lz4");
	says("ebb://capacity=1G;sive=4M", "sive=4M: there is no such option; there are capacity");
	says("id=ebb;capacity=1G;sive=4M", "sive=4M: there is no such option; there are capacity");
	says("ebb://", "capacity is missing");
	says("ebb://codec=lz4", "capacity is missing");
	says("ebb://capacity=0", "capacity is missing");
	says("ebb://capacity=4M", "capacity=4194304: a cache has at least 8388608 bytes");
	says("ebb://capacity=10Q", "capacity=10Q: this is no size");
	says("ebb://capacity=-1", "capacity=-1: this is no size");
	says("ebb://capacity=16777216T", "the size is too large");
	says("ebb://capacity=99999999999999999999", "the size is too large");
	says("ebb://capacity=1G;codec=zstd;level=40", "level=40: zstd has levels from -5 to 22");
	says("ebb://capacity=1G;level=high", "level=high: this is no level");
	says("ebb://capacity=1G;admission=never", "admission=never: it is always or second-miss");
	says("ebb://capacity=1G;spill=/tmp/x", "spill_capacity=0: a spill has at least 1048576");
	says("ebb://capacity=1G;spill_capacity=1G", "there is no spill=FILE");
	says("ebb://capacity=1G;spill=/no/folder/x;spill_capacity=1M", "spill=/no/folder/x");
}

void options_of_an_open_cache_stay_but_for_the_capacity()
{
	Blocks blocks = from_text("ebb://capacity=16M");
	std::size_t capacity = 0;

	check(!blocks->ConfigureFromString(ConfigOptions(), "codec=zstd").ok(), "changed its codec");
	check(blocks->ConfigureFromString(ConfigOptions(), "capacity=9M").ok(), "");
	blocks->GetCapacity(capacity);
	check(capacity == 9 << 20, std::to_string(capacity));
	check(blocks->GetPrintableOptions().find("codec : lz4\n") != std::string::npos, "");
}

/* ---- theirs ---- */

void a_block_comes_back_as_it_was()
{
	Blocks blocks = from_text("ebb://admission=always;capacity=16M");
	Object one(noise(1, 1007)), two(text(2, 30000)), none("");
	bool kept = true;

	check(!look(blocks, "k1", false, &kept) && !kept, "found what was never inserted");
	for (Object *o : {&one, &two, &none}) {
		check(insert(blocks, "k", o).ok(), "");
		auto found = look(blocks, "k", false, &kept);
		check(found && found->IsReady() && kept, "");
		found->Wait();
		auto *copy = static_cast<Object *>(found->Value());
		check(copy->bytes == o->bytes, "the bytes are other ones");
		check(found->Size() == charge_of(o->bytes.size()), "its size is not what was made's charge");
		delete copy;
	}
	blocks->WaitAll({});
}

#if EBB_ROCKSDB_OBJECTS
/* A program of its own may look only whether a block is there. */
void what_is_found_and_not_taken_is_freed()
{
	Blocks blocks = from_text("ebb://admission=always;capacity=16M");
	Object one(text(5, 4000));
	bool kept;

	check(insert(blocks, "k", &one).ok(), "");
	for (bool advise_erase : {false, true}) {
		auto found = look(blocks, "k", advise_erase, &kept);
		check(found && found->IsReady(), "");
		check(found->Size() == charge_of(4000) && Object::live == 2, "");
		found.reset();
		check(Object::live == 1, std::to_string(Object::live) + " objects are there");
	}
}
#endif

void what_goes_up_is_erased_if_that_is_advised()
{
	Blocks blocks = from_text("ebb://capacity=16M");
	Blocks keeps = from_text("ebb://admission=always;capacity=16M;exclusive=false");
	Object o(text(3, 4000));
	bool kept = true;

	check(blocks->SupportForceErase(), "");
	check(insert(blocks, "k", &o).ok() && insert(blocks, "k", &o).ok(), "");
	take(look(blocks, "k", true, &kept));
	check(!kept && !look(blocks, "k", false, &kept), "it is still there");
	/* It was wanted twice: it is stored at once. */
	check(insert(blocks, "k", &o).ok(), "");
	take(look(blocks, "k", false, &kept));
	blocks->Erase("k");
	check(!look(blocks, "k", false, &kept), "it was erased");
	check(insert(keeps, "k", &o).ok(), "");
	take(look(keeps, "k", true, &kept));
	check(kept, "it was to be kept");
	take(look(keeps, "k", false, &kept));
}

void the_second_miss_stores()
{
	Blocks blocks = from_text("ebb://capacity=16M");
	Object o(text(4, 4000));
	bool kept;

	check(insert(blocks, "k", &o).ok(), "");
	check(!look(blocks, "k", false, &kept), "the first one stored");
	check(insert(blocks, "k", &o).ok(), "");
	take(look(blocks, "k", false, &kept));
#if EBB_ROCKSDB_FORCE
	check(blocks->Insert("forced", &o, helper(), true).ok(), "");
	take(look(blocks, "forced", false, &kept));
#endif
}

void what_cannot_be_saved_or_made_is_a_miss()
{
	Blocks blocks = from_text("ebb://admission=always;capacity=16M");
	Object o(text(5, 4000)), bad(text(6, 4000));
	bool kept = true;

	check(blocks_insert(blocks, "k", nullptr, helper()).IsInvalidArgument(), "stored nothing");
	bad.fails = true;
	check(insert(blocks, "k", &bad).IsNotSupported(), "said nothing of saveto's error");
	check(!look(blocks, "k", false, &kept), "");
	check(insert(blocks, "k", &o).ok(), "");
	create_fails = true;
	check(!look(blocks, "k", false, &kept) && !kept, "made an object in spite of the error");
	create_fails = false;
	check(!look(blocks, "k", false, &kept), "what could not be made is still there");
	check(insert(blocks, std::string(2000, 'k'), &o).IsInvalidArgument(), "so long a key");
}

void a_cache_that_is_full_goes_on()
{
	Blocks blocks = from_text("ebb://admission=always;capacity=8M");
	std::vector<unsigned> there;
	bool kept;

	for (unsigned i = 0; i < 6000; i++) {
		Object o(noise(i, 4000));
		insert(blocks, key_of(i), &o).PermitUncheckedError();
	}
	for (unsigned i = 0; i < 6000; i++)
		if (auto found = look(blocks, key_of(i), false, &kept)) {
			there.push_back(i);
			check(take(std::move(found)) == noise(i, 4000), "another block's bytes");
		}
	check(there.size() > 1000 && there.size() < 2100, std::to_string(there.size()) + " of 8 MiB");
}

/* ---- ours ---- */

void what_does_not_compress_is_kept_raw()
{
	Blocks blocks = from_text("ebb://admission=always;capacity=64M;codec=zstd");

	for (unsigned i = 0; i < 1000; i++) {
		Object o(noise(i, 4096));
		check(insert(blocks, key_of(i), &o).ok(), "");
	}
	struct ebb_cache_stat stat = stat_of(blocks);
	check(stat.values == 1000 && stat.object_bytes < 1000 * (4096 + 100),
	      std::to_string(stat.object_bytes) + " bytes");
}

void memory_is_within_the_capacity_which_changes()
{
	constexpr std::size_t MIB = 1 << 20;
	Blocks blocks = from_text("ebb://admission=always;capacity=64M");
	std::size_t before = resident(), capacity = 0;
	unsigned n = full_dose() ? 200000 : 60000;

	for (unsigned i = 0; i < n; i++) {
		Object o(text(i, 1000 + i % 7000));
		insert(blocks, key_of(i), &o).PermitUncheckedError();
	}
	check(used(blocks) <= 64 * MIB * 106 / 100, std::to_string(used(blocks)) + " of 64 MiB");
	check(used(blocks) >= 64 * MIB * 80 / 100, std::to_string(used(blocks)) + " only of 64 MiB");
	if (!sanitized())
		check(resident() < before + 64 * MIB * 106 / 100 + 4 * MIB,
		      std::to_string(resident() - before) + " resident of 64 MiB");
	check(blocks->SetCapacity(8 * MIB).ok(), "");
	blocks->GetCapacity(capacity);
	check(capacity == 8 * MIB && used(blocks) <= 8 * MIB * 106 / 100,
	      std::to_string(used(blocks)) + " of 8 MiB");
	check(blocks->SetCapacity(4 * MIB).IsInvalidArgument(), "it has 4 MiB");
	check(blocks->SetCapacity(64 * MIB).ok(), "");
#if EBB_ROCKSDB_DEFLATE
	check(blocks->Deflate(40 * MIB).ok() && blocks->Deflate(10 * MIB).ok(), "");
	blocks->GetCapacity(capacity);
	check(capacity == 64 * MIB, "deflated, it is still as large");
	for (unsigned i = 0; i < n / 10; i++) {
		Object o(text(i, 1000 + i % 7000));
		insert(blocks, key_of(i), &o).PermitUncheckedError();
	}
	check(used(blocks) <= 14 * MIB * 106 / 100, std::to_string(used(blocks)) + " of 14 MiB");
	check(blocks->Deflate(10 * MIB).ok() && stat_of(blocks).values == 0, "4 MiB are none");
	check(!blocks->Inflate(61 * MIB).ok() && blocks->Inflate(60 * MIB).ok(), "");
#endif
}

#if EBB_ROCKSDB_TYPES
void what_was_saved_compressed_stays_what_it_is()
{
	Blocks blocks = from_text("ebb://admission=always;capacity=16M");
	std::string saved = noise(7, 3000);
	bool kept;

	check(blocks->InsertSaved("k", saved, rocksdb::kZSTD,
				  rocksdb::CacheTier::kNonVolatileBlockTier).ok(), "");
	check(take(look(blocks, "k", false, &kept)) == saved, "other bytes");
	check(created_type == rocksdb::kZSTD &&
	      created_source == rocksdb::CacheTier::kNonVolatileBlockTier, "it is of another kind");
}
#endif

void a_spill_that_is_damaged_is_a_miss()
{
	std::string name = "/tmp/ebb-rocksdb-spill." + std::to_string(getpid());
	Blocks blocks = from_text("ebb://admission=always;capacity=8M;spill=" + name + ";spill_capacity=16M");
	unsigned hits = 0, bad = 0;
	bool kept;

	Blocks second;
	EbbSecondaryCacheOptions same;
	same.capacity = 8 << 20;
	same.spill = name;
	same.spill_capacity = 16 << 20;
	check(NewEbbSecondaryCache(same, &second).IsBusy(), "two caches have one spill");
	check(!symlink(name.c_str(), (name + ".link").c_str()), "no link");
	says("ebb://capacity=8M;spill=" + name + ".link;spill_capacity=16M",
	     (name + ".link: it is a symbolic link").c_str());
	unlink((name + ".link").c_str());
	for (unsigned i = 0; i < 6000; i++) {
		Object o(noise(i, 4000));
		insert(blocks, key_of(i), &o).PermitUncheckedError();
		/* Else what comes faster than the file takes it is dropped. */
		if (i % 32 == 0)
			ebb_cache_flush(EbbCacheOf(blocks.get()));
	}
	ebb_cache_flush(EbbCacheOf(blocks.get()));
	check(stat_of(blocks).spill_values > 1000, std::to_string(stat_of(blocks).spill_values) + " spilled, " +
	      std::to_string(stat_of(blocks).spill_dropped) + " dropped");
	std::FILE *f = std::fopen(name.c_str(), "r+");
	check(f, name);
	/* Each third record or so: one byte of 12,000. */
	for (long at = 5000; at < 12 << 20; at += 12000) {
		std::fseek(f, at, SEEK_SET);
		int c = std::fgetc(f);
		std::fseek(f, at, SEEK_SET);
		std::fputc(c ^ 1, f);
	}
	std::fclose(f);
	for (unsigned i = 0; i < 6000; i++) {
		auto found = look(blocks, key_of(i), i % 2, &kept);

		hits += found != nullptr;
		if (found && take(std::move(found)) != noise(i, 4000))
			bad++;
	}
	check(!bad, std::to_string(bad) + " had other bytes");
	check(stat_of(blocks).spill_bad > 100 && hits > 1000, std::to_string(hits) + " hits");
	std::remove(name.c_str());
}

/* A primary cache of a few objects in front, and all calls at once. */
void many_threads_see_blocks_as_they_were()
{
	constexpr unsigned THREADS = 4, KEYS = 4000;
	Blocks blocks = from_text("ebb://admission=always;capacity=8M;codec=lz4");
	std::atomic<unsigned> hits{0}, wrong{0};
	unsigned steps = full_dose() ? 100000 : 8000;
	std::vector<std::thread> threads;
	MockCache primary(blocks, 100);

	for (unsigned t = 0; t < THREADS; t++)
		threads.emplace_back([&, t] {
			std::mt19937 rng(t);

			for (unsigned i = 0; i < steps; i++) {
				unsigned k = rng() % KEYS;
				std::string got;

				if (!primary.Get(key_of(k), &got))
					primary.Put(key_of(k), new Object(text(k, 4000 + k)));
				else if (hits++, got != text(k, 4000 + k))
					wrong++;
				if (rng() % 64 == 0)
					blocks->Erase(key_of(rng() % KEYS));
				if (rng() % 1024)
					continue;
				blocks->SetCapacity((8 + rng() % 4) << 20).PermitUncheckedError();
			}
		});
	for (auto &thread : threads)
		thread.join();
	primary.Clear();
	check(!wrong, std::to_string(wrong) + " wrong blocks");
	check(hits > steps, std::to_string(hits) + " hits");
	check(Object::live == 0, std::to_string(Object::live) + " objects were not freed");
	char why[200];
	check(!ebb_cache_check(EbbCacheOf(blocks.get()), why, sizeof(why)), why);
}

}  // namespace

int main()
{
	return run_cases({
		CASE(a_uri_and_an_id_make_the_same_cache),
		CASE(what_it_is_as_text_makes_it_again),
		CASE(what_cannot_be_is_named_and_told_what_can),
		CASE(options_of_an_open_cache_stay_but_for_the_capacity),
		CASE(a_block_comes_back_as_it_was),
#if EBB_ROCKSDB_OBJECTS
		CASE(what_is_found_and_not_taken_is_freed),
#endif
		CASE(what_goes_up_is_erased_if_that_is_advised),
		CASE(the_second_miss_stores),
		CASE(what_cannot_be_saved_or_made_is_a_miss),
		CASE(a_cache_that_is_full_goes_on),
		CASE(what_does_not_compress_is_kept_raw),
		CASE(memory_is_within_the_capacity_which_changes),
#if EBB_ROCKSDB_TYPES
		CASE(what_was_saved_compressed_stays_what_it_is),
#endif
		CASE(a_spill_that_is_damaged_is_a_miss),
		CASE(many_threads_see_blocks_as_they_were),
	});
}
