package board

import "sync"

// broadcast wakes all who wait for news of a topic. Nothing is queued, because whoever is woken reads the store. The
// zero value is ready.
type broadcast struct {
	mu     sync.Mutex
	topics map[string]*topic
}

// topic is what some wait for.
type topic struct {
	news    chan struct{} // closed, and another one put in its place, when something happens
	waiting int           // how many joined and did not leave
}

// topicOf names what happens on a board.
func topicOf(tenant, board string) string { return tenant + "/" + board }

// join begins to wait for a topic, and leave ends it.
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

// news returns a channel that is closed when something happens from now on.
func (b *broadcast) news(t *topic) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return t.news
}

// wake tells all who wait for a topic that something happened.
func (b *broadcast) wake(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.topics[name]; t != nil {
		close(t.news)
		t.news = make(chan struct{})
	}
}
