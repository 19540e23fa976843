package kafka

import (
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// cache holds what a writer knows of streams, or of scopes. A value that differs from what is stored, or
// that a commit in flight has changed, stays; of the others as many stay as the cache is large.
//
// A commit in flight changes a value for the decisions after it only: should the lead end, the whole cache goes.
// What is stored is the value after the last counted commit.
type cache[K comparable, V any] struct {
	live  map[K]*slot[V]
	fresh map[K]V // loaded for the batch at hand, which may be larger than the cache
	clean *simplelru.LRU[K, V]
}

type slot[V any] struct {
	latest  V // after all decided commits
	counted V // after all counted ones
	pins    int
	dirty   bool // counted is not stored, nor being stored
}

func newCache[K comparable, V any](size int) (*cache[K, V], error) {
	clean, err := simplelru.NewLRU[K, V](size, nil)
	if err != nil {
		return nil, err
	}
	return &cache[K, V]{live: map[K]*slot[V]{}, fresh: map[K]V{}, clean: clean}, nil
}

// get is the value that the next decision sees.
func (c *cache[K, V]) get(k K) (V, bool) {
	if s, ok := c.live[k]; ok {
		return s.latest, true
	}
	if v, ok := c.fresh[k]; ok {
		return v, true
	}
	return c.clean.Get(k)
}

// loaded adds a value as it is stored. It changes nothing that is here already.
func (c *cache[K, V]) loaded(k K, v V) {
	if _, known := c.get(k); !known {
		c.fresh[k] = v
	}
}

// passed says that the batch at hand is over.
func (c *cache[K, V]) passed() {
	for k, v := range c.fresh {
		c.clean.Add(k, v)
	}
	clear(c.fresh)
}

// decide sets a value that a commit in flight leads to; settle or nothing follows.
func (c *cache[K, V]) decide(k K, v V) {
	s := c.slot(k)
	s.latest = v
	s.pins++
}

// settle says that the commit counted that led to v.
func (c *cache[K, V]) settle(k K, v V) {
	s := c.live[k]
	s.counted, s.dirty = v, true
	s.pins--
}

// replace sets a value that must be stored again without a commit.
func (c *cache[K, V]) replace(k K, v V) {
	c.decide(k, v)
	c.settle(k, v)
}

func (c *cache[K, V]) slot(k K) *slot[V] {
	s, ok := c.live[k]
	if !ok {
		s = &slot[V]{}
		s.counted, _ = c.get(k)
		c.clean.Remove(k)
		delete(c.fresh, k)
		c.live[k] = s
	}
	return s
}

// flush hands every counted value that is not stored to store, and counts it as being stored.
func (c *cache[K, V]) flush(store func(K, V)) {
	for k, s := range c.live {
		if s.dirty {
			s.dirty = false
			store(k, s.counted)
		}
	}
}

// flushed says that what the last flush handed out is stored.
func (c *cache[K, V]) flushed() {
	for k, s := range c.live {
		if !s.dirty && s.pins == 0 {
			delete(c.live, k)
			c.clean.Add(k, s.counted)
		}
	}
}
