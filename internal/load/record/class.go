package record

import (
	"github.com/tare-mesh/tare/internal/load"
)

// classIndex is a [Class] as an array index.
type classIndex uint8

const (
	classOK classIndex = iota
	classStatus
	classTimeout
	classConn
	classCount
)

var classNames = [classCount]load.Class{load.OK, load.Status, load.Timeout, load.Conn}

// classOf is the class of a request that ended with k.
func classOf(k load.Failure) classIndex {
	switch k {
	case load.FailureNone:
		return classOK
	case load.FailureWrongStatus, load.FailureWrongSize, load.FailureWrongBody, load.FailureNotJSON, load.FailureWrongJSON:
		return classStatus
	case load.FailureTimeout, load.FailureNotSent:
		return classTimeout
	}
	return classConn
}
