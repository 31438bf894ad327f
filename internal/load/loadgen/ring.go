package loadgen

// ring is a first-in-first-out queue that grows and never shrinks.
type ring[T any] struct {
	items      []T
	head, size int
}

func (r *ring[T]) push(v T) {
	if r.size == len(r.items) {
		grown := make([]T, max(16, 2*len(r.items)))
		for i := range r.size {
			grown[i] = r.items[(r.head+i)%len(r.items)]
		}
		r.items, r.head = grown, 0
	}
	at := r.head + r.size
	if at >= len(r.items) {
		at -= len(r.items)
	}
	r.items[at] = v
	r.size++
}

func (r *ring[T]) pop() (v T, ok bool) {
	if r.size == 0 {
		return v, false
	}
	var zero T
	v, r.items[r.head] = r.items[r.head], zero
	if r.head++; r.head == len(r.items) {
		r.head = 0
	}
	r.size--
	return v, true
}
