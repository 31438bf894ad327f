package stream

import "testing"

func TestCounter(t *testing.T) {
	for _, c := range []struct {
		contentType, body string
		want              int
	}{
		{"text/event-stream; charset=utf-8", "data: a\n\ndata: b\n\n", 2},
		{"Text/Event-Stream", "event: x\r\nid: 1\r\ndata: a\r\ndata: b\r\n\r\n", 1},
		{"text/event-stream", ": ping\n\n:\n\nretry: 10\n\ndata: {}\n\n", 1},
		{"text/event-stream", "data: a\n\ndata: unfinished\n", 1},
		{"text/event-stream", "data: a\n\ndata: [DONE]\n\n", 1},
		{"text/event-stream", "data:[DONE]\r\n\r\n", 0},
		{"text/event-stream", "data: [DONE]x\n\ndata: [DONE] and a long rest\n\n", 2},
		{"text/event-stream", "database: x\n\ndata:\n\n", 1},
		{"text/event-stream", "\n\n\ndata: a\n\n\n\n", 1},
		{"application/x-ndjson", "{}\n{\"a\": 1}\r\n\n{}\n{}", 3},
		{"application/json", "data: a\n\n", 0},
		{"", "data: a\n\n", 0},
	} {
		for size := 1; size <= len(c.body); size++ { // pieces of any size
			n := Counter{Kind: KindOf(c.contentType)}
			for at := 0; at < len(c.body); at += size {
				n.Count([]byte(c.body[at:min(at+size, len(c.body))]))
			}
			if n.Messages != c.want {
				t.Errorf("%s %q in pieces of %d: %d messages, want %d", c.contentType, c.body, size, n.Messages, c.want)
			}
		}
	}
}

func TestTimes(t *testing.T) {
	var x Times
	for i, c := range []struct{ now, gap int64 }{{70, -1}, {100, 30}, {100, 0}} {
		if gap := x.Arrive(c.now); gap != c.gap || x.Messages != i+1 || x.Message != 70 {
			t.Errorf("message %d: gap %d, %+v", i, gap, x)
		}
	}
}

func FuzzCounter(f *testing.F) {
	f.Add([]byte("data: a\n\n: c\n\ndata: [DONE]\r\n\r\n"), 3)
	f.Fuzz(func(t *testing.T, body []byte, cut int) {
		whole, cuts := Counter{Kind: Events}, Counter{Kind: Events}
		whole.Count(body)
		cut = min(max(cut, 0), len(body))
		cuts.Count(body[:cut])
		cuts.Count(body[cut:])
		if whole.Messages != cuts.Messages {
			t.Errorf("%d messages in one piece, %d in two", whole.Messages, cuts.Messages)
		}
	})
}
