"""Mail: messages between harnesses and from operators, each delivered once."""
