package main

import (
	"sync"
)

// peer runs tasks under keys, at most limit of one key at a time. Handles are dropped after
// submit (there are none), which flatters these peers.
type peer interface {
	submit(key string, task func())
}

// goroutinePeer starts a goroutine per task; a buffered channel per key is the semaphore.
// Not FIFO: goroutines reach the channel in any order.
type goroutinePeer struct {
	limit int
	slots sync.Map // key -> chan struct{}
}

func (p *goroutinePeer) submit(key string, task func()) {
	found, ok := p.slots.Load(key)
	if !ok {
		found, _ = p.slots.LoadOrStore(key, make(chan struct{}, p.limit))
	}
	slots := found.(chan struct{})
	go func() {
		slots <- struct{}{}
		task()
		<-slots
	}()
}

// lanePeer queues tasks in a slice per key. Up to limit goroutines work on a lane, and end when
// it is empty. FIFO at limit 1.
type lanePeer struct {
	limit int
	lanes sync.Map // key -> *lane
}

type lane struct {
	mutex   sync.Mutex
	waiting []func()
	running int
}

func (p *lanePeer) submit(key string, task func()) {
	found, ok := p.lanes.Load(key)
	if !ok {
		found, _ = p.lanes.LoadOrStore(key, new(lane))
	}
	l := found.(*lane)
	l.mutex.Lock()
	l.waiting = append(l.waiting, task)
	start := l.running < p.limit
	if start {
		l.running++
	}
	l.mutex.Unlock()
	if start {
		go l.work(p.limit)
	}
}

func (l *lane) work(limit int) {
	for {
		l.mutex.Lock()
		batch := l.take(limit)
		if len(batch) == 0 {
			l.running--
			l.mutex.Unlock()
			return
		}
		l.mutex.Unlock()
		for _, task := range batch {
			task()
		}
	}
}

// take returns all that waits in a serial lane. With a higher limit it returns one task: a batch
// would run one after the other what may run at once.
func (l *lane) take(limit int) []func() {
	if len(l.waiting) == 0 {
		return nil
	}
	if limit == 1 {
		batch := l.waiting
		l.waiting = nil
		return batch
	}
	batch := l.waiting[:1:1]
	l.waiting = l.waiting[1:]
	return batch
}
