package record

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/tare-mesh/tare/internal/load"
)

// Answer is one request, and the configuration that served it, or the end of a connection by the server. Its instants are ns from the
// start of the schedule.
type Answer struct {
	Conn      int    // its connection, of all workers
	Sent, End int64  // Sent is the intended start if no open connection got it
	OK        bool   // the answer counts as success
	Status    int    // of HTTP, 0 without an answer
	Version   string // of [load.VersionHeader], empty without an answer or its header
	Event     Event
}

// Event is what the server did to a request or a connection.
type Event string

const (
	Answered Event = "answered" // or failed in another way
	Cut      Event = "cut"      // the connection or the stream ended under the request
	Dropped  Event = "dropped"  // the server ended a connection that was open for requests, at Sent and End
)

// answer is an Answer as a worker keeps it.
type answer struct {
	sent, end     int64
	conn, version int32
	status        int16
	ok            bool
	event         Event
}

// answers are the requests of one worker in their order of ending.
type answers struct {
	Versions *load.Versions // nil: they are not kept
	all      []answer
}

func (a *answers) finish(o *Outcome, ok bool) {
	if a.Versions == nil {
		return
	}
	one := answer{sent: o.Sent, end: o.End, conn: o.Conn, status: int16(o.Status), ok: ok, event: Answered}
	if o.Kind.Cut() {
		one.event = Cut
	}
	if o.Sent < 0 {
		one.sent = o.Intended
	}
	if o.Status != 0 {
		one.version = o.Version
	}
	a.all = append(a.all, one)
}

// Dropped records that the server ended a connection that was open for requests, at an instant.
func (a *answers) Dropped(conn int32, at int64) {
	if a.Versions != nil {
		a.all = append(a.all, answer{sent: at, end: at, conn: conn, event: Dropped})
	}
}

var answerColumns = []string{"connection", "sent_ns", "end_ns", "ok", "status", "version", "event"}

// WriteAnswers writes the answers of all workers as CSV.
func WriteAnswers(w io.Writer, results []*Totals) error {
	out := csv.NewWriter(w)
	_ = out.Write(answerColumns) // Error has the error
	for worker, t := range results {
		for _, a := range t.all {
			_ = out.Write([]string{strconv.Itoa(int(a.conn)*len(results) + worker), strconv.FormatInt(a.sent, 10), strconv.FormatInt(a.end, 10),
				strconv.FormatBool(a.ok), strconv.Itoa(int(a.status)), t.Versions.Values[a.version], string(a.event)})
		}
	}
	out.Flush()
	return out.Error()
}

// ReadAnswers reads what [WriteAnswers] wrote.
func ReadAnswers(r io.Reader) (all []Answer, err error) {
	in := csv.NewReader(bufio.NewReaderSize(r, 1<<20))
	in.ReuseRecord, in.FieldsPerRecord = true, len(answerColumns)
	if _, err := in.Read(); err != nil {
		return nil, fmt.Errorf("read answers: %w", err)
	}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		var a Answer
		if err == nil {
			a.Conn, err = strconv.Atoi(row[0])
		}
		if err == nil {
			a.Sent, err = strconv.ParseInt(row[1], 10, 64)
		}
		if err == nil {
			a.End, err = strconv.ParseInt(row[2], 10, 64)
		}
		if err == nil {
			a.OK, err = strconv.ParseBool(row[3])
		}
		if err == nil {
			a.Status, err = strconv.Atoi(row[4])
		}
		if err != nil {
			return nil, fmt.Errorf("read answers: %w", err)
		}
		a.Version, a.Event = row[5], Event(row[6])
		all = append(all, a)
	}
}
