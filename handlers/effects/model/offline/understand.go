package offline

import (
	"regexp"
	"slices"
	"strings"

	"github.com/cairnhq/cairn/handlers/effects/tools"
)

// wish is what the user wants, as far as the rules understand it.
type wish struct {
	verb   string // create, list, count, today, update, delete, search, read, yes, hello, thanks, help
	entity string // task, comment, project, checkpoint, note
	target string // the name of the row it is about
	id     string // or its id
	// names are the titles to create, one or several.
	names    []string
	text     string // a comment's or note's content, a search, a new name
	priority string
	due      string
	status   string
	people   []string
	about    string // description
	project  string // id
	show     string // table, chart, timeline
}

var (
	entityWords = regexp.MustCompile(`(?i)\b(comments?|checkpoints?|milestones?|notes?|tasks?|to[- ]?dos?|reminders?|projects?)\b`)
	createWords = regexp.MustCompile(`(?i)^(?:create|add|make|new|start|open|write|note down|note|set up|remind me|jot down|comment)\b`)
	deleteWords = regexp.MustCompile(`(?i)^(?:delete|remove|erase|drop|get rid of|yes,? delete|yes,? remove|i confirm)\b`)
	doneWords   = regexp.MustCompile(`(?i)^(?:complete|finish|close|check off|tick off|mark|i (?:have )?(?:finished|completed|done|did))\b`)
	changeWords = regexp.MustCompile(`(?i)^(?:update|change|set|rename|move|edit|archive|unarchive|approve|postpone|reschedule|assign|reopen|make)\b`)
	listWords   = regexp.MustCompile(`(?i)^(?:list|show|give|display|which|what|what's|whats|do i have|are there|is there|tell me|see|get|my|all|draw|chart|plot)\b`)
	searchWords = regexp.MustCompile(`(?i)^(?:search|find|look for|look up)\b`)
	readWords   = regexp.MustCompile(`(?i)^(?:read|open|show me|show|get|view|display|what does|what is in|what's in)\b`)
	countWords  = regexp.MustCompile(`(?i)\b(?:how many|count|number of)\b`)
	yesWords    = regexp.MustCompile(`(?i)^(?:yes|yep|yeah|ok|okay|sure|confirm|confirmed|go ahead|do it|i confirm)\b`)
	helloWords  = regexp.MustCompile(`(?i)^(?:hello|hi|hey|good (?:morning|afternoon|evening)|hallo)\b`)
	thanksWords = regexp.MustCompile(`(?i)^(?:thanks|thank you|great|perfect|nice|cool|danke)\b`)
	helpWords   = regexp.MustCompile(`(?i)\b(?:help|what can you do|who are you|what are you)\b`)
	renameWords = regexp.MustCompile(`(?i)^(.*?)\s+(?:to|as|into)\s+(.+)$`)
	contentMark = regexp.MustCompile(`(?is)^(.*?)(?:\s*:\s+|\s*:\n|\s+(?:saying|that says|with (?:the )?(?:content|text)|which says|containing)\s*:?\s+)(.+)$`)
	plural      = regexp.MustCompile(`(?i)\b(?:tasks|notes|projects|comments|checkpoints|milestones|to[- ]?dos)\b`)
)

// understand reads the user's message.
func (s *scene) understand() wish {
	text := strings.TrimSpace(polite.ReplaceAllString(s.text, ""))
	if text == "" {
		text = s.text
	}
	w := wish{id: rowID.FindString(text), project: take(&text, projectID)}
	entity := entityWords.FindString(unquoted(text))
	w.entity = kind(entity)
	w.show = shape(text)
	switch {
	case countWords.MatchString(text):
		w.verb = "count"
	case createWords.MatchString(text) && (!changeWords.MatchString(text) || w.entity != ""):
		return s.creating(w, text)
	case deleteWords.MatchString(text):
		return s.targeting(w, "delete", text, deleteWords)
	case doneWords.MatchString(text):
		return s.completing(w, text)
	case changeWords.MatchString(text):
		return s.changing(w, text)
	case searchWords.MatchString(text):
		w.verb, w.text = "search", sought(text)
	case entity != "" && !plural.MatchString(text) && readWords.MatchString(text) && named(text, entity):
		return s.targeting(w, "read", text, readWords)
	case listWords.MatchString(text) && (entity != "" || due(text)):
		w.verb = "list"
	case yesWords.MatchString(text):
		w.verb = "yes"
	case helloWords.MatchString(text) && entity == "", s.text != text && entity == "" && helloWords.MatchString(s.text):
		w.verb = "hello"
	case thanksWords.MatchString(text):
		w.verb = "thanks"
	case helpWords.MatchString(text):
		w.verb = "help"
	case due(text) || plural.MatchString(text):
		w.verb = "list"
	}
	return s.listing(w, text)
}

// unquoted is the text without what stands in quotes, where a word says nothing about what is wanted.
func unquoted(text string) string { return quoted.ReplaceAllString(text, " ") }

func kind(word string) string {
	word = strings.ToLower(word)
	switch {
	case strings.HasPrefix(word, "comment"):
		return "comment"
	case strings.HasPrefix(word, "check"), strings.HasPrefix(word, "mile"):
		return "checkpoint"
	case strings.HasPrefix(word, "note"):
		return "note"
	case strings.HasPrefix(word, "project"):
		return "project"
	case word == "":
		return ""
	}
	return "task"
}

func shape(text string) string {
	lower := strings.ToLower(text)
	for _, s := range []string{"table", "chart", "timeline"} {
		if strings.Contains(lower, s) {
			return s
		}
	}
	return ""
}

func due(text string) bool {
	lower := strings.ToLower(text)
	return strings.Contains(lower, "due") && anyDay.MatchString(lower)
}

// named reports whether something follows the entity that may be its name.
func named(text, entity string) bool {
	_, after, _ := strings.Cut(text, entity)
	return trim(after) != "" && !due(text)
}

// listing completes a wish to see or count rows.
func (s *scene) listing(w wish, text string) wish {
	switch w.verb {
	case "list", "count":
	case "search":
		if w.entity == "" {
			w.entity = s.focusOr("task")
		}
		return w
	default:
		return w
	}
	if w.entity == "" {
		w.entity = s.focusOr("task")
	}
	w.due = day(anyDay.FindString(text), s.today)
	w.priority = priority(take(&text, priorityWords))
	if w.entity == "task" {
		w.status = status(statusWords.FindString(strings.NewReplacer("to-dos", "", "todos", "", "to dos", "").Replace(strings.ToLower(text))))
	}
	if w.entity == "comment" {
		w.target = afterAny(text, " on ", " of ", " for ", " to ")
	}
	if strings.Contains(strings.ToLower(text), "archived") || strings.Contains(strings.ToLower(text), "all projects") {
		w.status = "archived"
	}
	if about := quote(text); about != "" && w.entity == "task" {
		w.text = about
	} else if i := indexAny(text, " about ", " containing ", " mentioning "); i >= 0 && w.entity == "task" {
		w.text = trim(text[i+strings.Index(text[i+1:], " ")+1:])
	}
	return w
}

func (s *scene) focusOr(other string) string {
	if s.focus != "" {
		return s.focus
	}
	return other
}

func indexAny(text string, marks ...string) int {
	lower := strings.ToLower(text)
	for _, m := range marks {
		if i := strings.Index(lower, m); i >= 0 {
			return i
		}
	}
	return -1
}

// afterAny is what follows the first of the marks, as a name.
func afterAny(text string, marks ...string) string {
	if q := quote(text); q != "" {
		return q
	}
	lower := strings.ToLower(text)
	for _, m := range marks {
		if i := strings.Index(lower, m); i >= 0 {
			return nameOf(text[i+len(m):])
		}
	}
	return ""
}

// nameOf takes the entity's word and what surrounds it away from a name.
func nameOf(text string) string {
	text = trim(text)
	if at := entityWords.FindStringIndex(text); at != nil && at[0] == 0 {
		text = text[at[1]:]
	}
	return trim(text)
}

func sought(text string) string {
	if q := quote(text); q != "" {
		return q
	}
	if i := indexAny(text, " for ", " about ", " on ", " with ", " mentioning "); i >= 0 {
		return trim(text[i+1+strings.Index(text[i+1:], " "):])
	}
	text = searchWords.ReplaceAllString(text, "")
	return nameOf(text)
}

// route picks an agent by the words of the message, of the focus, and of what was said before.
func (s *scene) route() string {
	w := s.understand()
	if w.entity == "" {
		w.entity = s.focus
	}
	for _, m := range slices.Backward(s.before) {
		if w.entity != "" {
			break
		}
		if m.Role == "user" {
			earlier := scene{text: m.Content, today: s.today}
			w.entity = earlier.understand().entity
		}
	}
	switch w.entity {
	case "project", "checkpoint", "note":
		return w.entity + "_agent"
	}
	return tools.Fallback
}
