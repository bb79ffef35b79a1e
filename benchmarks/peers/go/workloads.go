package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var processStart = time.Now()

func nowNs() int64 { return int64(time.Since(processStart)) }

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}

// residentBytes collects garbage, gives freed memory back, and reads what is left.
func residentBytes() int64 {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

const stripes = 1024

// tally counts finished tasks and stamps the end of the last one. Goroutines have no thread of
// their own to count on, so a task counts on the stripe of its key, and a full stripe counts once.
type tally struct {
	stripe [stripes]struct {
		left atomic.Int64
		_    [7]int64 // a cache line each
	}
	stripesLeft atomic.Int64
	end         atomic.Int64
	done        chan struct{}
}

func newTally(o *options) *tally {
	t := &tally{done: make(chan struct{})}
	for i := 0; i < o.tasks; i++ {
		left := &t.stripe[i%o.keys%stripes].left
		if left.Add(1) == 1 {
			t.stripesLeft.Add(1)
		}
	}
	return t
}

func (t *tally) countOne(key int) {
	if t.stripe[key%stripes].left.Add(-1) != 0 {
		return
	}
	if t.stripesLeft.Add(-1) == 0 {
		t.end.Store(nowNs())
		close(t.done)
	}
}

func (t *tally) wait() {
	select {
	case <-t.done:
	case <-time.After(120 * time.Second):
		fail("not all tasks ran within 120 s")
	}
}

// check fails if a task ran twice.
func (t *tally) check() {
	for i := range t.stripe {
		if left := t.stripe[i].left.Load(); left != 0 {
			fail("%d tasks too many ran", -left)
		}
	}
}

// order checks that a submitter's tasks start in the order in which it submitted them.
type order struct {
	lastOfSubmitter []atomic.Int64
	broken          atomic.Bool
}

func (o *order) note(submitter, index int) {
	last := &o.lastOfSubmitter[submitter]
	if last.Load() > int64(index) {
		o.broken.Store(true)
	}
	last.Store(int64(index))
}

func makeKeys(count int) []string {
	keys := make([]string, count)
	for i := range keys {
		keys[i] = "key-" + strconv.Itoa(i)
	}
	return keys
}

// submitAll submits from every submitter's own stretch of the task numbers, keys round robin, and
// returns when the first submit began and the last one ended.
func submitAll(p peer, o *options, keys []string, t *tally, fifo *order) (first, last int64) {
	begins := make([]int64, o.submitters)
	ends := make([]int64, o.submitters)
	start := make(chan struct{})
	var submitters sync.WaitGroup
	for s := 0; s < o.submitters; s++ {
		submitters.Add(1)
		go func(who int) {
			defer submitters.Done()
			begin, end := o.tasks*who/o.submitters, o.tasks*(who+1)/o.submitters
			<-start
			begins[who] = nowNs()
			for i := begin; i < end; i++ {
				index, key := i, i%len(keys)
				if fifo == nil {
					p.submit(keys[key], func() { t.countOne(key) })
				} else {
					p.submit(keys[key], func() { fifo.note(who, index); t.countOne(key) })
				}
			}
			ends[who] = nowNs()
		}(s)
	}
	close(start)
	submitters.Wait()
	first, last = begins[0], ends[0]
	for i := range begins {
		if begins[i] < first {
			first = begins[i]
		}
		if ends[i] > last {
			last = ends[i]
		}
	}
	return first, last
}

// figures are what one run of a flood or a backlog measures.
type figures struct {
	nsPerTask, submitNsPerTask, bytesPerTask float64
	inOrder                                  bool
}

// threeRuns runs a workload three times in this process, each on a new peer. Memory is measured in
// the first run, when all of it is new, and time in the last, when the process has it.
func threeRuns(o *options, once func(peer) figures) (first, last figures) {
	first = once(makePeer(o))
	once(makePeer(o))
	return first, once(makePeer(o))
}

// runFlood is w1, w2 and w3.
func runFlood(o *options, out *jsonLine) {
	keys := makeKeys(o.keys)
	measureMemory := o.workload == "w3"
	first, last := threeRuns(o, func(p peer) figures {
		f := floodOnce(p, o, keys, measureMemory)
		measureMemory = false
		return f
	})
	out.number("ns_per_task", last.nsPerTask)
	out.number("first_run_ns_per_task", first.nsPerTask)
	if o.workload == "w2" {
		out.boolean("fifo", first.inOrder && last.inOrder)
	}
	if o.workload == "w3" {
		out.number("bytes_kept_per_key", first.bytesPerTask)
	}
}

func floodOnce(p peer, o *options, keys []string, measureMemory bool) (f figures) {
	t := newTally(o)
	var fifo *order
	if o.workload == "w2" {
		fifo = &order{lastOfSubmitter: make([]atomic.Int64, o.submitters)}
	}
	var bytesBefore int64
	if measureMemory {
		bytesBefore = residentBytes()
	}
	first, _ := submitAll(p, o, keys, t, fifo)
	t.wait()
	f.nsPerTask = float64(t.end.Load()-first) / float64(o.tasks)
	f.inOrder = fifo == nil || !fifo.broken.Load()
	if measureMemory {
		f.bytesPerTask = float64(residentBytes()-bytesBefore) / float64(o.keys)
		runtime.KeepAlive(keys) // or the collector takes both before they are measured
		runtime.KeepAlive(p)
	}
	t.check()
	return f
}

func runBacklog(o *options, out *jsonLine) {
	keys := makeKeys(o.keys)
	first, last := threeRuns(o, func(p peer) figures { return backlogOnce(p, o, keys) })
	out.number("ns_per_task", last.nsPerTask)
	out.number("first_run_ns_per_task", first.nsPerTask)
	out.number("submit_ns_per_task", last.submitNsPerTask)
	out.number("bytes_per_waiting_task", first.bytesPerTask)
}

// backlogOnce takes every slot of every key with a task that waits, queues all tasks behind them,
// and lets go. The time in between is not counted.
func backlogOnce(p peer, o *options, keys []string) (f figures) {
	t := newTally(o)
	gate := make(chan struct{})
	var held sync.WaitGroup
	for _, key := range keys {
		for i := 0; i < o.limit; i++ {
			held.Add(1)
			p.submit(key, func() { held.Done(); <-gate })
		}
	}
	held.Wait()
	bytesBefore := residentBytes()
	first, last := submitAll(p, o, keys, t, nil)
	queuedBytes := residentBytes() - bytesBefore
	opened := nowNs()
	close(gate)
	t.wait()
	tasks := float64(o.tasks)
	f.nsPerTask = float64(last-first+t.end.Load()-opened) / tasks
	f.submitNsPerTask = float64(last-first) / tasks
	f.bytesPerTask = float64(queuedBytes) / tasks
	t.check()
	return f
}

// napMilliseconds is one pass of w4; it also checks that no key exceeds its limit.
func napMilliseconds(p peer, o *options, keys []string) float64 {
	t := newTally(o)
	running := make([]atomic.Int64, len(keys))
	var overLimit atomic.Bool
	first := nowNs()
	for i := 0; i < o.tasks; i++ {
		key := i % len(keys)
		p.submit(keys[key], func() {
			if running[key].Add(1) > int64(o.limit) {
				overLimit.Store(true)
			}
			time.Sleep(10 * time.Millisecond)
			running[key].Add(-1)
			t.countOne(key)
		})
	}
	t.wait()
	if overLimit.Load() {
		fail("a key ran more tasks at once than its limit")
	}
	return float64(t.end.Load()-first) / 1e6
}

// runSleepers is w4: the first pass on a new peer is cold, the second warm.
func runSleepers(p peer, o *options, out *jsonLine) {
	keys := makeKeys(o.keys)
	out.number("cold_ms", napMilliseconds(p, o, keys))
	warm := napMilliseconds(p, o, keys)
	out.number("warm_ms", warm)
	out.number("total_ms", warm)
}

// runRoundTrips is w6.
func runRoundTrips(p peer, o *options, out *jsonLine) {
	durations := make([]int64, o.tasks)
	result := make(chan int, 1)
	for i := range durations {
		begin := nowNs()
		p.submit("key-0", func() { result <- 1 })
		<-result
		durations[i] = nowNs() - begin
	}
	sort.Slice(durations, func(a, b int) bool { return durations[a] < durations[b] })
	for _, percent := range []int{50, 90, 99} {
		value := durations[(len(durations)-1)*percent/100]
		out.integer(fmt.Sprintf("p%d_ns", percent), value)
	}
}
