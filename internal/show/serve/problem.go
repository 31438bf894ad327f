package serve

import (
	"net/http"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
)

// problem is an error as a page.
type problem struct {
	status               int
	Title, Message, Hint string
}

func newProblem(status int, err error) *problem {
	return &problem{status, http.StatusText(status), printable.Text(err.Error()), printable.Text(hint.Of(err))}
}

func (p *problem) Error() string { return p.Message }
