package generator

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// Each calls each with every request of an output, without keeping them. Times are relative to any
// instant, or since 1970 if the output has the time of day.
type Each func(r io.Reader, each func(Record)) error

// cells are a row of a table by the names of its columns.
type cells struct {
	columns map[string]int
	row     []string
}

// EachHeyRecord reads hey -o csv, in seconds. It omits requests without a response.
func EachHeyRecord(r io.Reader, each func(Record)) error {
	return eachCells(r, "hey", []string{"response-time", "status-code", "offset"}, func(c cells) error {
		took, err1 := c.number("response-time")
		at, err2 := c.number("offset")
		code, err3 := c.number("status-code")
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		rec, err := recordOf(span(at), took, code)
		if err == nil {
			each(rec)
		}
		return err
	})
}

// EachK6CSVRecord reads k6 --out csv: a row for each metric of a request, with the time of its end.
func EachK6CSVRecord(r io.Reader, each func(Record)) error {
	return eachCells(r, "k6", []string{"metric_name", "timestamp", "metric_value", "status"}, func(c cells) error {
		if c.text("metric_name") != k6Duration {
			return nil
		}
		end, err1 := k6Time(c.text("timestamp"))
		ms, err2 := c.number("metric_value")
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		return k6Record(end, ms, c.text("status"), c.text("expected_response"), c.text("error"), each)
	})
}

// k6Duration is the metric of a request's time.
const k6Duration = "http_req_duration"

// k6Time reads the formats of K6_CSV_TIME_FORMAT: a time of RFC 3339, or units since 1970.
func k6Time(text string) (time.Duration, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return time.Duration(at.UnixNano()), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("timestamp %.40q is not a time", text)
	}
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if n < 1e10*int64(time.Second/unit) && n <= math.MaxInt64/int64(unit) {
			return time.Duration(n) * unit, nil
		}
	}
	return time.Duration(n), nil
}

// EachK6Record reads k6 --out json: a line for each metric of a request.
func EachK6Record(r io.Reader, each func(Record)) error {
	return eachLine(r, "k6", func(line string) error {
		if !strings.Contains(line, k6Duration) {
			return nil
		}
		var point struct {
			Type   string `json:"type"`
			Metric string `json:"metric"`
			Data   struct {
				Time  time.Time `json:"time"`
				Value float64   `json:"value"`
				Tags  struct {
					Status   string `json:"status"`
					Expected string `json:"expected_response"`
					Error    string `json:"error"`
				} `json:"tags"`
			} `json:"data"`
		}
		if err := json.Unmarshal([]byte(line), &point); err != nil {
			return err
		}
		if point.Type != "Point" || point.Metric != k6Duration {
			return nil
		}
		if y := point.Data.Time.Year(); y < 1970 || y > 2200 || !(point.Data.Value >= 0) {
			return fmt.Errorf("time %v, %v ms", point.Data.Time, point.Data.Value)
		}
		return k6Record(time.Duration(point.Data.Time.UnixNano()), point.Data.Value, point.Data.Tags.Status, point.Data.Tags.Expected, point.Data.Tags.Error, each)
	})
}

// k6Record is a request of k6. expected is the result of its responseCallback, which decides what failed.
func k6Record(end time.Duration, ms float64, status, expected, cause string, each func(Record)) error {
	code, err := strconv.ParseFloat(status, 64)
	if status == "" {
		code, err = 0, nil
	}
	if err != nil || !(code >= 0) {
		return fmt.Errorf("status %.40q is no figure", status)
	}
	rec, err := recordOf(end-span(ms/1e3), ms/1e3, code)
	if err != nil {
		return err
	}
	if code == 0 {
		rec.Error = causeKind(cause)
	} else {
		rec.Passed, rec.Failed = expected == "true", expected == "false"
	}
	each(rec)
	return nil
}

// jmeterLayouts are the formats of JMeter's times, beside ms since 1970. They have no zone.
var jmeterLayouts = []string{"2006/01/02 15:04:05", "2006-01-02 15:04:05", "01/02/06 15:04:05", time.RFC3339}

// jmeterTime is the time of a row since 1970.
func jmeterTime(text string) (time.Duration, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		if ms < 0 || ms > 9e12 {
			return 0, fmt.Errorf("timeStamp %.40q is out of range", text)
		}
		return time.Duration(ms) * time.Millisecond, nil
	}
	for _, layout := range jmeterLayouts {
		if at, err := time.Parse(layout, text); err == nil && at.Year() >= 1970 && at.Year() < 2200 {
			return time.Duration(at.UnixNano()), nil
		}
	}
	return 0, fmt.Errorf("timeStamp %.40q is no time", text)
}

// jmeterRecord is a sample of JMeter. Its success decides what failed: it is the result of the assertions. A sample without a
// numeric status is of another protocol, or without an answer.
func jmeterRecord(at time.Duration, tookMS float64, success, code, message string) (Record, error) {
	status, err := strconv.ParseFloat(code, 64)
	if err != nil || !(status >= 0) {
		status = 0
	}
	rec, err := recordOf(at, tookMS/1e3, status)
	if err != nil {
		return rec, err
	}
	rec.Passed, rec.Failed = success == "true", success == "false"
	if rec.Code == 0 && !rec.Passed && (strings.HasPrefix(code, "Non HTTP") || !rec.Failed) { // "Non HTTP response code: java.net.…"
		rec.Error = causeKind(code + " " + message)
	}
	return rec, nil
}

// jmeterTransaction begins the message of a sample that sums up others.
const jmeterTransaction = "Number of samples in transaction"

// EachJMeterRecord reads JMeter's JTL as CSV, in ms. Rows of transactions, which sum up others, do not count.
func EachJMeterRecord(r io.Reader, each func(Record)) error {
	return eachCells(r, "jmeter", []string{"timeStamp", "elapsed", "responseCode", "success"}, func(c cells) error {
		message := c.text("responseMessage")
		if strings.HasPrefix(message, jmeterTransaction) {
			return nil
		}
		at, err1 := jmeterTime(c.text("timeStamp"))
		took, err2 := c.number("elapsed")
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		rec, err := jmeterRecord(at, took, c.text("success"), c.text("responseCode"), message)
		if err != nil {
			return err
		}
		if size, err := c.number("bytes"); err == nil && size <= maxSize {
			rec.Size = int64(size)
		}
		each(rec)
		return nil
	})
}

// number is a finite number that is not negative.
func (c cells) number(name string) (float64, error) {
	v, err := strconv.ParseFloat(c.text(name), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0, fmt.Errorf("%s %.40q is no figure", name, c.text(name))
	}
	return v, nil
}

// text is a cell, empty if the table lacks the column.
func (c cells) text(name string) string {
	if i, ok := c.columns[name]; ok {
		return c.row[i]
	}
	return ""
}

// longestService bounds the time of a request, in seconds: no generator waits longer.
const longestService = 1e6

// recordOf is a request with a service time in seconds.
func recordOf(at time.Duration, took, code float64) (Record, error) {
	if took > longestService || code > 999 {
		return Record{}, fmt.Errorf("%g s and status %g are out of range", took, code)
	}
	service := span(took)
	return Record{At: at, Done: at + service, Service: service, Late: unknown, Response: unknown, Size: -1, Code: int(code)}, nil
}

// delimiters of the columns of a table. The first one in its header counts.
const delimiters = ",;\t|"

// eachCells reads rows after a header with these columns.
func eachCells(r io.Reader, generator string, needs []string, row func(cells) error) error {
	b := bufio.NewReader(r)
	start, _ := b.Peek(1024) // a short file has less
	c := csv.NewReader(&bounded{r: b})
	if i := bytes.IndexAny(start, delimiters+"\n"); i >= 0 && start[i] != '\n' {
		c.Comma = rune(start[i])
	}
	c.ReuseRecord = true
	fail := func(err error) error { return fmt.Errorf("read output of %s: %w", generator, err) }
	head, err := c.Read()
	if err != nil {
		return fail(fmt.Errorf("header: %w", err))
	}
	in, head0 := cells{columns: map[string]int{}}, strings.Clone(head[0])
	for i, name := range head {
		in.columns[strings.TrimPrefix(name, "\ufeff")] = i
	}
	for _, name := range needs {
		if _, ok := in.columns[name]; !ok {
			return fail(fmt.Errorf("it has no column %s", name))
		}
	}
	for n := 0; ; n++ {
		if in.row, err = c.Read(); errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && in.row[0] == head0 {
			err = errors.New("the header occurs twice: files were joined")
		}
		if err == nil && n > 100*maxRecords { // k6 has a row for each of many metrics
			err = tooMany(generator)
		}
		if err == nil {
			if err = row(in); err != nil {
				line, _ := c.FieldPos(0)
				err = fmt.Errorf("line %d: %w", line, err)
			}
		}
		if err != nil {
			return fail(err)
		}
	}
}

// causeKind is the kind of an error text in any case.
func causeKind(text string) string {
	text = strings.ToLower(text)
	if kind := errorKind(text); kind != "other" || classOfError(text) != load.Timeout {
		return kind
	}
	return "timeout"
}
