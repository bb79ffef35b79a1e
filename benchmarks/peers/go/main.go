// The Go peers: go_goroutine and go_lane run tasks, go_lock_map is a lock per key. Runs one workload
// in a fresh process and prints one line of JSON; the command line is that of the C++ peers, plus
// --peer.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

type options struct {
	peer, workload                 string
	submitters, tasks, keys, limit int
}

// sizes are a workload's tasks, keys and limit unless the command line says otherwise.
var sizes = map[string][3]int{
	"w1":      {1_000_000, 1_000, 4},
	"w2":      {1_000_000, 1, 1},
	"w3":      {1_000_000, 1_000_000, 4},
	"w4":      {10_000, 100, 10},
	"backlog": {1_000_000, 1_000, 4},
	"w5":      {2_000_000, 1_000, 1},
	"w6":      {20_000, 1, 1},
}

func failUsage(message string) {
	fmt.Fprintf(os.Stderr, "%s\n\nusage: peer WORKLOAD [--submitters N] [--tasks N] [--keys K] "+
		"[--limit L] [--peer go_goroutine|go_lane|go_lock_map]\n"+
		"workloads: w1 w2 w3 w4 backlog w6, and w5 of go_lock_map\n", message)
	os.Exit(2)
}

func parseOptions(words []string) *options {
	if len(words) == 0 {
		failUsage("workload missing")
	}
	size, ok := sizes[words[0]]
	if !ok {
		failUsage("unknown workload: " + words[0])
	}
	o := &options{workload: words[0]}
	flags := flag.NewFlagSet("peer", flag.ExitOnError)
	flags.StringVar(&o.peer, "peer", "go_goroutine", "go_goroutine, go_lane or go_lock_map")
	flags.IntVar(&o.submitters, "submitters", 1, "submitting goroutines")
	flags.IntVar(&o.tasks, "tasks", size[0], "tasks")
	flags.IntVar(&o.keys, "keys", size[1], "keys")
	flags.IntVar(&o.limit, "limit", size[2], "tasks of one key at a time")
	_ = flags.Parse(words[1:]) // ends the process on an error
	if o.workload == "w3" {
		o.keys = o.tasks
	}
	if o.submitters < 1 || o.tasks < o.submitters || o.keys < 1 || o.limit < 1 {
		failUsage("counts are at least 1, and there are no more submitters than tasks")
	}
	if (o.workload == "w5") != (o.peer == "go_lock_map") {
		failUsage("w5 is for go_lock_map, and go_lock_map for w5")
	}
	return o
}

func makePeer(o *options) peer {
	switch o.peer {
	case "go_goroutine":
		return &goroutinePeer{limit: o.limit}
	case "go_lane":
		return &lanePeer{limit: o.limit}
	}
	failUsage("unknown peer: " + o.peer)
	return nil
}

// jsonLine builds one line of JSON. Text is plain words: nothing is escaped.
type jsonLine struct{ fields []string }

func (j *jsonLine) add(format string, values ...any) {
	j.fields = append(j.fields, fmt.Sprintf(format, values...))
}
func (j *jsonLine) text(name, value string)          { j.add("%q:%q", name, value) }
func (j *jsonLine) integer(name string, value int64) { j.add("%q:%d", name, value) }
func (j *jsonLine) number(name string, v float64)    { j.add("%q:%.1f", name, v) }
func (j *jsonLine) boolean(name string, value bool)  { j.add("%q:%t", name, value) }

func main() {
	o := parseOptions(os.Args[1:])
	out := &jsonLine{}
	out.text("peer", o.peer)
	out.text("workload", o.workload)
	out.integer("submitters", int64(o.submitters))
	out.integer("tasks", int64(o.tasks))
	out.integer("keys", int64(o.keys))
	out.integer("limit", int64(o.limit))
	switch o.workload {
	case "w4":
		runSleepers(makePeer(o), o, out)
	case "backlog":
		runBacklog(o, out)
	case "w5":
		runLocks(o, out)
	case "w6":
		runRoundTrips(makePeer(o), o, out)
	default:
		runFlood(o, out)
	}
	fmt.Printf("{%s}\n", strings.Join(out.fields, ","))
}
