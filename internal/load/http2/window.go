package http2

// window is the number of bytes that a stream or the connection may still send (RFC 9113 section 5.2).
type window struct {
	left int64
	most int64 // the most that left has been
}

// add returns n bytes to w, and reports whether the result is valid.
func (w *window) add(n int64) bool {
	w.left += n
	w.most = max(w.most, w.left)
	return n > 0 && w.left <= maxWindow
}

// returns reports whether n bytes are part of what was sent.
func (w *window) returns(n int64) bool { return n > 0 && w.left+n <= w.most }

// moved is w after a change of the initial window by n bytes.
func (w window) moved(n int64) window { return window{w.left + n, w.most + n} }

// pump frames bodies as far as the windows allow, without small rests.
func (s *Session) pump() { s.frameBodies(false) }

// Release frames the rests that are held, some time after they were. If no window has come since, the
// rest of it becomes the measure of later rests.
func (s *Session) Release(silent bool) {
	if silent {
		s.window.settle()
		for _, st := range s.pending {
			st.window.settle()
		}
	}
	s.frameBodies(true)
}

// settle takes the rest for all that the server gives.
func (w *window) settle() {
	if w.left > 0 {
		w.most = w.left
	}
}

func (s *Session) frameBodies(small bool) {
	s.Held = false
	left := s.pending[:0]
	waits := false // a stream waits for the connection's window: later ones must not take it
	for _, st := range s.pending {
		for !waits && len(s.out)-s.written < maxUnsent {
			rest := st.send[st.sentBody:st.released]
			n := int(min(int64(len(rest)), maxFrame, s.window.left, st.window.left))
			if n <= 0 {
				break
			}
			if n < len(rest) && !small {
				if waits = s.window.isSmall(n); waits || st.window.isSmall(n) {
					s.Held = true
					break
				}
			}
			flags := byte(0)
			if st.sentBody+n == len(st.send) {
				flags = flagEndStream
			}
			s.out = append(appendFrame(s.out, frameData, flags, st.id, n), rest[:n]...)
			s.fruitless = 0
			st.sentBody += n
			s.window.left -= int64(n)
			st.window.left -= int64(n)
			if n == len(rest) {
				break
			}
		}
		if st.unsent = st.sentBody < st.released; st.unsent {
			left = append(left, st)
		}
	}
	s.pending = left
}

// isSmall reports whether a frame of n bytes, all that is left, is to wait for more. Servers return
// a window piece by piece, and each piece sent at once would come back as a piece of its size
// (RFC 1122 section 4.2.3.4). Less than a quarter of the window waits: servers return what they
// have read by then.
func (w *window) isSmall(n int) bool {
	return int64(n) == w.left && int64(n) < min(maxFrame, w.most/4)
}
