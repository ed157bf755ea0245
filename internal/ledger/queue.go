package ledger

// queue is a doubly linked list of accounts, oldest first. An account is in one
// queue at most.
type queue struct {
	root account // root.next is the oldest, root.prev the newest
	n    int
}

func (q *queue) init() { q.root.next, q.root.prev = &q.root, &q.root }

func (q *queue) first() *account {
	if q.n == 0 {
		return nil
	}
	return q.root.next
}

func (q *queue) push(c *account) {
	c.prev, c.next = q.root.prev, &q.root
	c.prev.next, q.root.prev = c, c
	q.n++
}

// remove takes c out.
func (q *queue) remove(c *account) {
	c.prev.next, c.next.prev = c.next, c.prev
	c.prev, c.next = nil, nil
	q.n--
}
