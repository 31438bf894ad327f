package generator

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// gatlingStatus is the status in the message of a failed check: "status.find.is(200), but actually found 404".
var gatlingStatus = regexp.MustCompile(`status\.find.*\bfound (\d{3})$`)

// gatlingLost occurs in the messages of requests without an answer: a Java exception, or Gatling's own time-out.
var gatlingLost = regexp.MustCompile(`(?i)Exception|Premature close|timeout|timed out|refused|reset`)

// EachGatlingRecord reads simulation.log of Gatling 2 to 3.11, whose columns are separated by tabs. A line of a request ends
// with the name, the times of its start and end in ms since 1970, OK or KO, and a message. It has no status of a good answer.
func EachGatlingRecord(r io.Reader, each func(Record)) error {
	runs, records, last := 0, 0, ""
	end := endOf{r: r}
	err := eachLine(&end, "gatling", func(line string) error {
		last = line
		cells := strings.Split(line, "\t")
		if cells[0] == "RUN" {
			if runs++; runs > 1 {
				return errors.New("a second line RUN: files were joined")
			}
		}
		if cells[0] != "REQUEST" {
			return nil
		}
		if records++; records > maxRecords {
			return tooMany("gatling")
		}
		at := len(cells) - 1
		for at > 2 && cells[at] != "OK" && cells[at] != "KO" {
			at--
		}
		if at <= 2 {
			return errors.New("a request without OK or KO")
		}
		start, err1 := strconv.ParseInt(cells[at-2], 10, 64)
		end, err2 := strconv.ParseInt(cells[at-1], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if start < 0 || end < start || end > 9e12 {
			return fmt.Errorf("a request from %d to %d", start, end)
		}
		rec, err := recordOf(time.Duration(start)*time.Millisecond, float64(end-start)/1e3, 0)
		if err != nil {
			return err
		}
		message := strings.TrimSpace(strings.Join(cells[at+1:], " "))
		rec.Passed, rec.Failed = cells[at] == "OK", cells[at] == "KO"
		if status := gatlingStatus.FindStringSubmatch(message); rec.Failed && status != nil {
			rec.Code, _ = strconv.Atoi(status[1])
		} else if rec.Failed && gatlingLost.MatchString(message) {
			rec.Error = causeKind(message)
		}
		each(rec)
		return nil
	})
	if err == nil && end.last != '\n' && !strings.HasPrefix(last, "USER\t") {
		err = errors.New("read output of gatling: its last line has no end: it was cut off")
	}
	return err
}

// endOf has the last byte that was read.
type endOf struct {
	r    io.Reader
	last byte
}

func (e *endOf) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if n > 0 {
		e.last = p[n-1]
	}
	return n, err
}
