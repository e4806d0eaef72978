package board

import (
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// broadcast wakes everyone who waits for news of a topic. It queues nothing, because those who wake up read the store.
// The zero value is ready to use.
type broadcast struct {
	mu     sync.Mutex
	topics map[string]*topic
}

// topic is something that callers wait for.
type topic struct {
	news    chan struct{} // closed and replaced when something happens
	waiting int           // number of callers between join and leave
}

// topicOf returns the topic of a board.
func topicOf(tenant, board string) string { return ident.Join(tenant, board) }

// join starts to wait for a topic; leave stops it.
func (b *broadcast) join(name string) *topic {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.topics == nil {
		b.topics = map[string]*topic{}
	}
	t := b.topics[name]
	if t == nil {
		t = &topic{news: make(chan struct{})}
		b.topics[name] = t
	}
	t.waiting++
	return t
}

func (b *broadcast) leave(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.topics[name]; t != nil {
		if t.waiting--; t.waiting == 0 {
			delete(b.topics, name)
		}
	}
}

// news returns a channel that is closed at the next event.
func (b *broadcast) news(t *topic) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return t.news
}

// wake wakes everyone who waits for a topic.
func (b *broadcast) wake(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.topics[name]; t != nil {
		close(t.news)
		t.news = make(chan struct{})
	}
}
