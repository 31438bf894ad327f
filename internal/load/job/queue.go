package job

// Queue is a first-in-first-out queue that grows and never shrinks.
type Queue[T any] struct {
	items      []T
	head, Size int
}

func (r *Queue[T]) Push(v T) {
	if r.Size == len(r.items) {
		grown := make([]T, max(16, 2*len(r.items)))
		for i := range r.Size {
			grown[i] = r.items[(r.head+i)%len(r.items)]
		}
		r.items, r.head = grown, 0
	}
	at := r.head + r.Size
	if at >= len(r.items) {
		at -= len(r.items)
	}
	r.items[at] = v
	r.Size++
}

// First returns the item that Pop returns next, and requires a queue that is
// not empty.
func (r *Queue[T]) First() T { return r.items[r.head] }

func (r *Queue[T]) Pop() (v T, ok bool) {
	if r.Size == 0 {
		return v, false
	}
	var zero T
	v, r.items[r.head] = r.items[r.head], zero
	if r.head++; r.head == len(r.items) {
		r.head = 0
	}
	r.Size--
	return v, true
}
