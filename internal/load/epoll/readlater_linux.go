package epoll

// maxReads bounds the reads of one connection in a turn of the worker's loop. A server that
// sends without end must not keep others' answers and deadlines waiting.
const maxReads = 8

// readLater has the rest that has arrived on c read in the next turn.
func (w *Worker) readLater(c *conn) {
	if c.secure != nil {
		c.secure.keep()
	}
	w.unread.Push(c.place())
}

// readMore goes on reading where the last turn broke off.
func (w *Worker) readMore() {
	for range w.unread.Size {
		at, _ := w.unread.Pop()
		switch c := at.conn; {
		case !at.current():
		case c.state == connSettings, c.state == connSession:
			w.streams.readAll(c)
		case c.messages != nil:
			w.messages.read(c)
		case c.state == connBusy && c.carries:
			w.exchanges.read(c)
		}
	}
	w.streams.flushAll()
}
