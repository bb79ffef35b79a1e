package main

import (
	"fmt"
	"math/rand"
	"sync"
	"sync/atomic"
	"time"
)

const (
	longestRun  = time.Second
	orderLength = 1 << 16 // then it begins anew
	countEvery  = 64      // each time, all goroutines would meet at the counter
)

// lockMap is go_lock_map: a mutex per key in a sync.Map, kept for ever.
type lockMap struct{ locks sync.Map }

func (m *lockMap) of(key string) *sync.Mutex {
	found, ok := m.locks.Load(key)
	if !ok {
		found, _ = m.locks.LoadOrStore(key, new(sync.Mutex))
	}
	return found.(*sync.Mutex)
}

// lockPlan says what is locked, and by whom in which order. Made before the clock starts.
type lockPlan struct {
	locks   int64 // of all goroutines together
	keys    []string
	orderOf [][]uint32 // of a goroutine
}

func newLockPlan(o *options) *lockPlan {
	plan := &lockPlan{locks: int64(o.tasks)}
	for i := 0; i < o.keys; i++ {
		plan.keys = append(plan.keys, fmt.Sprintf("tenant-%06d", i))
	}
	for who := 0; who < o.submitters; who++ {
		random := rand.New(rand.NewSource(int64(who + 1)))
		order := make([]uint32, orderLength)
		for i := range order {
			order[i] = uint32(random.Intn(o.keys))
		}
		plan.orderOf = append(plan.orderOf, order)
	}
	return plan
}

// runLocks is w5, timed as in the C++ peers: from when every goroutine has had a lock until all of
// them together have done the run's locks, or longestRun is over. The time is that of the third run.
func runLocks(o *options, out *jsonLine) {
	plan := newLockPlan(o)
	first := lockOnce(plan)
	lockOnce(plan)
	out.number("ns_per_lock", lockOnce(plan))
	out.number("first_run_ns_per_lock", first)
}

// lockRun is what the goroutines of a run share.
type lockRun struct {
	locks    lockMap
	counters []uint64
	arrived  atomic.Int64
	_        [7]int64     // the next on a cache line of its own
	ended    atomic.Int64 // when; 0 while it runs
	_        [7]int64
	done     atomic.Int64
}

func (r *lockRun) lock(plan *lockPlan, key uint32) {
	lock := r.locks.of(plan.keys[key])
	lock.Lock()
	r.counters[key]++
	lock.Unlock()
}

func (r *lockRun) end() { r.ended.CompareAndSwap(0, nowNs()) }

// lockShare returns how often it locked before the clock started, and after, and when it saw that.
func (r *lockRun) lockShare(plan *lockPlan, order []uint32) (before, during int, begin int64) {
	r.lock(plan, order[0])
	before = 1
	goroutines := int64(len(plan.orderOf))
	r.arrived.Add(1)
	for ; r.arrived.Load() < goroutines && r.ended.Load() == 0; before++ {
		r.lock(plan, order[before%orderLength])
	}
	begin = nowNs()
	for r.ended.Load() == 0 {
		r.lock(plan, order[during%orderLength])
		during++
		if during%countEvery == 0 && r.done.Add(countEvery) >= plan.locks {
			r.end()
		}
	}
	return before, during, begin
}

// lockOnce returns ns per lock.
func lockOnce(plan *lockPlan) float64 {
	run := &lockRun{counters: make([]uint64, len(plan.keys))}
	goroutines := len(plan.orderOf)
	before, during := make([]int, goroutines), make([]int, goroutines)
	begins := make([]int64, goroutines)
	timer := time.AfterFunc(longestRun, run.end)
	var working sync.WaitGroup
	for who := 0; who < goroutines; who++ {
		working.Add(1)
		go func(who int) {
			defer working.Done()
			before[who], during[who], begins[who] = run.lockShare(plan, plan.orderOf[who])
		}(who)
	}
	working.Wait()
	timer.Stop()
	early, timed, begin := 0, 0, begins[0]
	for who := range begins {
		early += before[who]
		timed += during[who]
		if begins[who] < begin {
			begin = begins[who]
		}
	}
	counted := uint64(0)
	for _, count := range run.counters {
		counted += count
	}
	if counted != uint64(early+timed) {
		fail("the lock does not exclude: %d sections counted to %d", early+timed, counted)
	}
	elapsed := run.ended.Load() - begin
	if elapsed <= 0 {
		fail("some goroutine did not get its first lock within %v", longestRun)
	}
	return float64(elapsed) / float64(timed)
}
