package hint

import "errors"

// UsageError is a mistake of the user, in the command line or in a file: the program ends with exit code 2.
type UsageError struct{ Hinted }

// Usage makes err a [UsageError] with a hint, "" for none.
func Usage(err error, text string) error { return &UsageError{Hinted{err, text}} }

// InvalidFile marks an error of reading a user's file as a mistake of the user: in the file, in its name, or in an override.
// An error with the method InvalidFile, such as a list of mistakes with hints, is kept as it is.
func InvalidFile(err error) error {
	if err == nil || errors.As(err, new(interface{ InvalidFile() })) {
		return err
	}
	return Usage(err, "")
}
