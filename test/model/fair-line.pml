/* The line for a fair lock (lua/join, renew-places, hand-over, confirm, renew, reenter, force-unlock, and their callers in
 * src/locks) as a model for spin; run.mjs says with which bounds, README.md what it covers and how to read a trail.
 *
 * The network is a soup: a command that was once sent may run at any time, in any order, never, or again; its reply and
 * the grants it sends may come late, twice, or not at all. Time is ticks, any number of them between any two steps, so a
 * client that pauses or dies is one that is not scheduled. A client counts what it relies on from before it sent.
 */

/* Bounds. A lease is in ticks. */
#ifndef CLIENTS
#define CLIENTS 2      /* each with one caller */
#endif
#ifndef NONCES
#define NONCES 2       /* commands that join, or renew a place, for one owner */
#endif
#ifndef OTHERS_NONCES
#define OTHERS_NONCES NONCES /* those of client 1 and 2, if fewer */
#endif
#ifndef PLACE_LEASE
#define PLACE_LEASE 2  /* lockWatchdogTimeout: a place, and a lock without a lease of its own */
#endif
#ifndef COUNTED_LEASE
#define COUNTED_LEASE PLACE_LEASE /* what a client counts of it */
#endif
#ifndef FIXED_LEASE
#define FIXED_LEASE 1  /* of a caller that names one; shorter than that of a place */
#endif
#ifndef EXTENDED_LEASE
#define EXTENDED_LEASE 2 /* what extend() asks for */
#endif
#ifndef FIXED
#define FIXED 0        /* bit c: client c names a lease */
#endif
#ifndef SECOND_OWNER
#define SECOND_OWNER 0 /* 1: client 0 acquires a second time, as a new owner */
#endif

#define OWNERS (CLIENTS + SECOND_OWNER)
#if SECOND_OWNER
#define OWNER(c) (isSecond[c] -> CLIENTS : c)
#define CLIENT(o) ((o) == CLIENTS -> 0 : (o))
#else
#define OWNER(c) (c)
#define CLIENT(o) (o)
#endif
#define IS_FIXED(c) ((FIXED >> (c)) & 1)
#define ASKED_LEASE(c) (IS_FIXED(c) -> FIXED_LEASE : PLACE_LEASE)
#define ASKED_COUNTED(c) (IS_FIXED(c) -> FIXED_LEASE : COUNTED_LEASE)

/* The model of calm needs one nonce more. */
#ifdef CALM
#define ALL_NONCES (NONCES + 1)
#else
#define ALL_NONCES NONCES
#endif
#define COMMANDS (OWNERS * ALL_NONCES)
#define COMMAND(o, n) ((o) * ALL_NONCES + (n) - 1)

/* Ages stop counting where nothing is relied on any more. */
#if FIXED != 0 && EXTENDED_LEASE > COUNTED_LEASE
#define OLD EXTENDED_LEASE
#else
#define OLD COUNTED_LEASE
#endif

#define NOBODY 255

/* ---- the server */

byte holder = NOBODY, leaseLeft, holdCount;
bit inLine[OWNERS];
byte ticket[OWNERS];     /* kept after the place went, for as long as somebody may come back with it */
byte placeNonce[OWNERS], placeLeft[OWNERS];
byte lineLeft;           /* the keys of the line end by themselves */

/* ---- the clients */

#define IDLE 0
#define JOINING 1        /* a join was sent, and is not answered */
#define SLEEPING 2       /* in line */
#define WOKEN 3          /* told of a grant, or that the place is gone */
#define HOLDING 4
#define FINISHED 5
#define IS_WAITING(c) (phase[c] == JOINING || phase[c] == SLEEPING || phase[c] == WOKEN)

byte phase[CLIENTS], lastNonce[CLIENTS], joinNonce[CLIENTS];
byte grantNonce[CLIENTS], grantAge[CLIENTS]; /* the grant it was told of; nonce 0: none */
byte reliesFor[CLIENTS]; /* remaining(): how long it relies on its hold */
bit isSecond[CLIENTS], hasTicket[CLIENTS], isRenewed[CLIENTS];

/* What keeps a hold: its renewal by the watchdog, or the confirmation of a fixed lease; and extend(). */
#define SENT 1
#define ANSWERED 2
#define READ 3
byte keeping[CLIENTS], keepingAge[CLIENTS];
#if FIXED != 0
byte extending[CLIENTS], extendingAge[CLIENTS];
#endif

/* ---- the network */

#define JOIN 1
#define RENEW 2
byte command[COMMANDS], age[COMMANDS], reply[COMMANDS];
bit isKnown[COMMANDS];   /* Place.#sentNonces: a grant with this nonce may be taken */
bit withTicket[COMMANDS];
bit leaveSent[OWNERS], renewSent[OWNERS], confirmSent[OWNERS], extendSent[OWNERS];
byte grants[OWNERS];     /* bit n: the grant with nonce n is on its way */

/* Replies. IGNORED: nobody reads one any more. */
#define HELD 1
#define ACQUIRED 2
#define UNCONFIRMED 3
#define IN_LINE 4
#define YOURS 5
#define GONE 6
#define IGNORED 7

/* ---- what only the checks know */

bit isForced[OWNERS];    /* put out by forceUnlock(), or its key was deleted: it may rely on it until it asks again */
#if defined(FORCE) || defined(FLUSH)
bit wasForced;           /* once is enough */
bit repliedSince[COMMANDS], knowsOfLoss[OWNERS]; /* the reply was made after that; the client has read such a one */
#define AFTER_FORCE(statement) statement
#else
#define AFTER_FORCE(statement) skip
#endif

/* Scratch. Not part of the state; 0 again after every step, so that a search by breadth, which has no hidden ones, sees the
 * same states. */
#ifdef BREADTH
#define SCRATCH
#else
#define SCRATCH hidden
#endif
SCRATCH byte a, b, first, next, lease, nonce, told, calmOwner, who, pass, ticks;
SCRATCH byte rests[CLIENTS], hasRenewed[CLIENTS];
SCRATCH byte atMostOneBelieves, whoBelievesIsTheOwner, nobodyIsPassedOver, everyKeyEnds, noGrantOutlivesForce,
  everybodyEnters, nothingIsLeft;

/* ---- the promises */

#define BELIEVES(c) (phase[c] == HOLDING && reliesFor[c] > 0 && !isForced[OWNER(c)])
#define IS_OWNER_IF_BELIEVES(c) (!BELIEVES(c) || holder == OWNER(c))

#if CLIENTS == 2
#define AT_MOST_ONE_BELIEVES (!(BELIEVES(0) && BELIEVES(1)))
#define BELIEVERS_ARE_OWNERS (IS_OWNER_IF_BELIEVES(0) && IS_OWNER_IF_BELIEVES(1))
#else
#define AT_MOST_ONE_BELIEVES (!(BELIEVES(0) && BELIEVES(1)) && !(BELIEVES(0) && BELIEVES(2)) && !(BELIEVES(1) && BELIEVES(2)))
#define BELIEVERS_ARE_OWNERS (IS_OWNER_IF_BELIEVES(0) && IS_OWNER_IF_BELIEVES(1) && IS_OWNER_IF_BELIEVES(2))
#endif
#if OWNERS == 2
#define IS_LINE (inLine[0] || inLine[1])
#elif OWNERS == 3
#define IS_LINE (inLine[0] || inLine[1] || inLine[2])
#else
#define IS_LINE (inLine[0] || inLine[1] || inLine[2] || inLine[3])
#endif

inline check() {
  atMostOneBelieves = AT_MOST_ONE_BELIEVES;
  assert(atMostOneBelieves);
  whoBelievesIsTheOwner = BELIEVERS_ARE_OWNERS;
  assert(whoBelievesIsTheOwner);
  everyKeyEnds = (holder == NOBODY || leaseLeft > 0) && (lineLeft > 0 || !IS_LINE);
  assert(everyKeyEnds);
  atMostOneBelieves = 0; whoBelievesIsTheOwner = 0; everyKeyEnds = 0
}

/* When `o` gets the lock: nobody has a place that has not lapsed and an earlier ticket. */
inline checkOrder(o, hasOwnTicket) {
  a = 0; nobodyIsPassedOver = 1;
  do
  :: a < OWNERS ->
     if
     :: inLine[a] && a != o && placeLeft[a] > 0 && (!(hasOwnTicket) || ticket[a] < ticket[o]) -> nobodyIsPassedOver = 0
     :: else
     fi;
     a++
  :: else -> break
  od;
  assert(nobodyIsPassedOver);
  a = 0; nobodyIsPassedOver = 0
}

/* ---- the scripts */

/* The highest ticket. Tickets are kept dense, so that there are few of them. */
inline newTicket(o) {
  dropTicket(o);
  a = 0;
  do
  :: a < OWNERS -> if :: ticket[a] > b -> b = ticket[a] :: else fi; a++
  :: else -> break
  od;
  ticket[o] = b + 1; a = 0; b = 0
}

inline dropTicket(o) {
  if
  :: ticket[o] != 0 ->
     a = 0;
     do
     :: a < OWNERS -> if :: ticket[a] > ticket[o] -> ticket[a] = ticket[a] - 1 :: else fi; a++
     :: else -> break
     od;
     ticket[o] = 0; a = 0
  :: else
  fi
}

inline findFirst() {
  first = NOBODY; a = 0;
  do
  :: a < OWNERS ->
     if
     :: inLine[a] && first == NOBODY -> first = a
     :: inLine[a] && first != NOBODY && ticket[a] < ticket[first] -> first = a
     :: else
     fi;
     a++
  :: else -> break
  od;
  a = 0
}

inline dropPlace(o) {
  inLine[o] = 0; placeNonce[o] = 0; placeLeft[o] = 0;
  findFirst();
  if :: first == NOBODY -> lineLeft = 0 :: else fi;
  first = 0
}

inline renewPlace(o, n) {
  if :: placeNonce[o] <= n -> placeNonce[o] = n; placeLeft[o] = PLACE_LEASE :: else fi;
  lineLeft = PLACE_LEASE
}

/* A reply is there to be read until it is, whichever run of the command made it; `isSent` 0: this one's got lost. With
 * force, only the first run's can arrive: to a client that reads the second's, a grant of before looks new. */
#if defined(FORCE) || defined(FLUSH)
#define MAY_ANSWER(o, n) (reply[COMMAND(o, n)] == 0)
#else
#define MAY_ANSWER(o, n) (reply[COMMAND(o, n)] != IGNORED)
#endif
inline answer(o, n, what, isSent) {
  if
  :: isSent && MAY_ANSWER(o, n) -> reply[COMMAND(o, n)] = what;
     AFTER_FORCE(repliedSince[COMMAND(o, n)] = isForced[o])
  :: else
  fi
}

inline join(o, n, isSent) {
  if
  :: holder == o ->
     if :: leaseLeft < ASKED_LEASE(CLIENT(o)) -> leaseLeft = ASKED_LEASE(CLIENT(o)) :: else fi;
     answer(o, n, (holdCount == 0 -> UNCONFIRMED : ACQUIRED), isSent)
  :: else ->
     findFirst();
     b = (first == NOBODY || first == o ||
          (withTicket[COMMAND(o, n)] && ticket[o] != 0 && ticket[o] < ticket[first]));
#ifdef MUTANT_BARGES
     b = 1;
#endif
     first = 0;
     if
     :: holder == NOBODY && b ->
        b = 0;
        checkOrder(o, (inLine[o] || withTicket[COMMAND(o, n)]));
        dropPlace(o);
        holder = o; isForced[o] = 0; holdCount = 1; leaseLeft = ASKED_LEASE(CLIENT(o));
        answer(o, n, ACQUIRED, isSent)
     :: else ->
        b = 0;
        if
        :: !inLine[o] ->
           if :: !withTicket[COMMAND(o, n)] || ticket[o] == 0 -> newTicket(o) :: else fi;
           inLine[o] = 1; placeNonce[o] = n; placeLeft[o] = PLACE_LEASE;
#ifndef MUTANT_LINE_WITHOUT_END
           lineLeft = PLACE_LEASE
#endif
        :: else -> renewPlace(o, n)
        fi;
        answer(o, n, HELD, isSent)
     fi
  fi
}

inline renewPlaces(o, n, isSent) {
  if
  :: holder == o ->
     if :: leaseLeft < PLACE_LEASE -> leaseLeft = PLACE_LEASE :: else fi;
     answer(o, n, YOURS, isSent)
#ifdef MUTANT_MAKES_PLACE_ANEW
  :: holder != o && !inLine[o] ->
     newTicket(o); inLine[o] = 1; placeNonce[o] = n; placeLeft[o] = PLACE_LEASE; lineLeft = PLACE_LEASE;
     answer(o, n, IN_LINE, isSent)
#else
  :: holder != o && !inLine[o] -> answer(o, n, GONE, isSent)
#endif
  :: else -> renewPlace(o, n); answer(o, n, IN_LINE, isSent)
  fi
}

/* `o`: who gives up, or NOBODY. `deaf`: the clients (bits) of which NUMSUB says that nobody listens, dead or not. */
inline handOver(o, deaf) {
  if
  :: o != NOBODY && holder == o -> holder = NOBODY; leaseLeft = 0; holdCount = 0
#ifdef MUTANT_RELEASES_ANY
  :: o != NOBODY && holder != o && holder != NOBODY -> holder = NOBODY; leaseLeft = 0; holdCount = 0
#endif
#ifndef MUTANT_LEAVE_KEEPS_PLACE
  :: o != NOBODY && holder != o -> dropPlace(o)
#endif
  :: else
  fi;
  do
  :: holder != NOBODY -> break
  :: else ->
     findFirst();
     if
     :: first == NOBODY -> break
     :: else ->
        next = first; first = 0;
        lease = placeLeft[next]; nonce = placeNonce[next];
        dropPlace(next);
#ifdef MUTANT_HANDS_TO_LAPSED
        if :: lease == 0 -> lease = PLACE_LEASE :: else fi;
#endif
        if
        :: lease > 0 && ((deaf >> CLIENT(next)) & 1) ->
           /* Nothing is published: those who listen at a replica would hear it. */
#ifdef MUTANT_PUBLISHES_FIRST
           grants[next] = grants[next] | (1 << nonce)
#else
           skip
#endif
        :: lease > 0 && !((deaf >> CLIENT(next)) & 1) ->
           checkOrder(next, 1);
           holder = next; isForced[next] = 0; leaseLeft = lease; holdCount = 1 - IS_FIXED(CLIENT(next));
           grants[next] = grants[next] | (1 << nonce)
        :: else
        fi
     fi
  od;
  first = 0; next = 0; lease = 0; nonce = 0
}

inline confirm(o) {
  if
#ifdef MUTANT_CONFIRM_SHORTENS
  :: holder == o -> holdCount = 1; leaseLeft = FIXED_LEASE
#else
  :: holder == o && holdCount == 0 -> holdCount = 1; leaseLeft = FIXED_LEASE
  :: holder == o && holdCount != 0 && leaseLeft < FIXED_LEASE -> leaseLeft = FIXED_LEASE
#endif
  :: else
  fi
}

inline prolong(o, asked) {
#ifndef MUTANT_PROLONGS_KEEPING_0
  holdCount = 1;
#endif
  if :: leaseLeft < asked -> leaseLeft = asked :: else fi
}

/* ---- the clients */

/* Place.#askAnew, .#confirmed: a nonce that is not known never is again, so what is on its way with it is of no effect. */
inline forgetUnknown(c) {
  skip;
#if !defined(MUTANT_COUNTS_FROM_NEWEST) && !defined(MUTANT_COUNTS_FROM_CONFIRMED) && !defined(MUTANT_TAKES_OTHERS)
  a = 1;
  do
  :: a <= ALL_NONCES ->
     if
     :: !isKnown[COMMAND(OWNER(c), a)] ->
        grants[OWNER(c)] = grants[OWNER(c)] & (255 - (1 << a));
        if
        :: joinNonce[c] != a && command[COMMAND(OWNER(c), a)] == JOIN ->
           age[COMMAND(OWNER(c), a)] = OLD; reply[COMMAND(OWNER(c), a)] = IGNORED
        :: else
        fi
     :: else
     fi;
     a++
  :: else -> break
  od;
  a = 0
#endif
}

inline forget(c) {
  a = 1;
  do
  :: a <= ALL_NONCES -> isKnown[COMMAND(OWNER(c), a)] = 0; a++
  :: else -> break
  od;
  a = 0; grantNonce[c] = 0; grantAge[c] = 0;
  forgetUnknown(c)
}

inline confirmed(c, n) {
  skip;
#ifndef MUTANT_TAKES_OLD_GRANT
  a = 1;
  do
  :: a < n -> isKnown[COMMAND(OWNER(c), a)] = 0; a++
  :: else -> break
  od;
  a = 0;
  if :: grantNonce[c] != 0 && grantNonce[c] < n -> grantNonce[c] = 0; grantAge[c] = 0 :: else fi;
  forgetUnknown(c)
#endif
}

inline gone(c, n) {
  skip;
#ifndef MUTANT_GONE_IS_IGNORED
  b = 0; a = n + 1;
  do
  :: a <= ALL_NONCES -> if :: isKnown[COMMAND(OWNER(c), a)] -> b = 1 :: else fi; a++
  :: else -> break
  od;
  a = 0;
  if
  :: b == 0 -> forget(c); if :: phase[c] == SLEEPING -> phase[c] = WOKEN :: else fi
  :: else -> b = 0
  fi
#endif
}

/* The wait is over: nobody reads answers to it any more. */
inline endWait(c) {
  b = 0; a = 1;
  do
  :: a <= ALL_NONCES ->
     isKnown[COMMAND(OWNER(c), a)] = 0; age[COMMAND(OWNER(c), a)] = OLD;
     if :: command[COMMAND(OWNER(c), a)] != 0 -> reply[COMMAND(OWNER(c), a)] = IGNORED :: else fi;
     if :: command[COMMAND(OWNER(c), a)] == JOIN && withTicket[COMMAND(OWNER(c), a)] -> b = 1 :: else fi;
     a++
  :: else -> break
  od;
  a = 0;
  /* A ticket with which nobody will come back. */
  if :: b == 0 && !inLine[OWNER(c)] -> dropTicket(OWNER(c)) :: else fi;
  b = 0;
  grantNonce[c] = 0; grantAge[c] = 0; joinNonce[c] = 0; hasTicket[c] = 0; isRenewed[c] = 0; lastNonce[c] = 0;
#ifndef MUTANT_TAKES_OTHERS
  grants[OWNER(c)] = 0
#endif
}

inline sending(c, what) {
  if
  :: what == JOIN && joinNonce[c] != 0 -> /* that one's answer is not awaited any more */
     reply[COMMAND(OWNER(c), joinNonce[c])] = IGNORED; age[COMMAND(OWNER(c), joinNonce[c])] = OLD
  :: else
  fi;
  lastNonce[c] = lastNonce[c] + 1;
  command[COMMAND(OWNER(c), lastNonce[c])] = what;
  age[COMMAND(OWNER(c), lastNonce[c])] = 0;
  isKnown[COMMAND(OWNER(c), lastNonce[c])] = 1;
  if
  :: what == JOIN ->
     withTicket[COMMAND(OWNER(c), lastNonce[c])] = hasTicket[c];
     joinNonce[c] = lastNonce[c]; phase[c] = JOINING
  :: else
  fi
}

inline hold(c, ms) {
  lease = ms;
  endWait(c);
  phase[c] = HOLDING; reliesFor[c] = lease; lease = 0
}

inline keep(c) {
  if
  :: IS_FIXED(c) -> confirmSent[OWNER(c)] = 1; keeping[c] = SENT; keepingAge[c] = 0
  :: else
  fi
}

/* Leaving the line, releasing, and giving up what was lost are one command. */
inline leave(c) {
  leaveSent[OWNER(c)] = 1;
  endWait(c);
  reliesFor[c] = 0; keeping[c] = 0; keepingAge[c] = 0;
#if FIXED != 0
  extending[c] = 0; extendingAge[c] = 0;
#endif
  if
  :: SECOND_OWNER && c == 0 && !isSecond[c] -> isSecond[c] = 1; phase[c] = IDLE
  :: else -> phase[c] = FINISHED
  fi
}

#if defined(MUTANT_COUNTS_FROM_NEWEST) || defined(MUTANT_COUNTS_FROM_CONFIRMED)
#define IS_TAKEN(c, n) (lastNonce[c] > 0)
#else
#define IS_TAKEN(c, n) isKnown[COMMAND(OWNER(c), n)]
#endif

inline granted(c, n) {
  grantNonce[c] = n;
#if defined(MUTANT_COUNTS_FROM_NEWEST)
  grantAge[c] = age[COMMAND(OWNER(c), lastNonce[c])];
#elif defined(MUTANT_COUNTS_FROM_CONFIRMED)
  a = 1;
  do
  :: a < lastNonce[c] && !isKnown[COMMAND(OWNER(c), a)] -> a++
  :: else -> break
  od;
  grantAge[c] = (isKnown[COMMAND(OWNER(c), a)] -> age[COMMAND(OWNER(c), a)] : OLD); a = 0;
#elif defined(MUTANT_COUNTS_FROM_RECEIPT)
  grantAge[c] = 0;
#else
  grantAge[c] = age[COMMAND(OWNER(c), n)];
#endif
  if :: phase[c] == SLEEPING -> phase[c] = WOKEN :: else fi
}

#ifdef MUTANT_ENTERS_WITH_LITTLE_LEFT
#define IS_ENOUGH(c) (grantAge[c] < COUNTED_LEASE)
#else
#define IS_ENOUGH(c) (grantAge[c] < COUNTED_LEASE && 2 * (COUNTED_LEASE - grantAge[c]) >= PLACE_LEASE)
#endif
#ifdef MUTANT_COUNTS_FROM_REPLY
#define JOIN_AGE(c, n) 0
#else
#define JOIN_AGE(c, n) age[COMMAND(OWNER(c), n)]
#endif

inline relyOn(c, counted, sentAge) {
  if :: sentAge < counted && counted - sentAge > reliesFor[c] -> reliesFor[c] = counted - sentAge :: else fi
}

/* ---- time */

inline tick() {
  if
  :: leaseLeft > 0 -> leaseLeft--; if :: leaseLeft == 0 -> holder = NOBODY; holdCount = 0 :: else fi
  :: else
  fi;
  a = 0;
  do
  :: a < OWNERS -> if :: placeLeft[a] > 0 -> placeLeft[a] = placeLeft[a] - 1 :: else fi; a++
  :: else -> break
  od;
  if
  :: lineLeft > 0 ->
     lineLeft--;
     if
     :: lineLeft == 0 ->
        a = 0;
        do
        :: a < OWNERS -> inLine[a] = 0; placeNonce[a] = 0; placeLeft[a] = 0; a++
        :: else -> break
        od
     :: else
     fi
  :: else
  fi;
  a = 0;
  do
  :: a < COMMANDS -> if :: command[a] != 0 && age[a] < OLD -> age[a] = age[a] + 1 :: else fi; a++
  :: else -> break
  od;
  a = 0;
  do
  :: a < CLIENTS ->
     if :: reliesFor[a] > 0 -> reliesFor[a] = reliesFor[a] - 1 :: else fi;
     if :: grantNonce[a] != 0 && grantAge[a] < OLD -> grantAge[a] = grantAge[a] + 1 :: else fi;
     if :: keeping[a] != 0 && keepingAge[a] < OLD -> keepingAge[a] = keepingAge[a] + 1 :: else fi;
#if FIXED != 0
     if :: extending[a] != 0 && extendingAge[a] < OLD -> extendingAge[a] = extendingAge[a] + 1 :: else fi;
#endif
     a++
  :: else -> break
  od;
  a = 0
}

/* ---- the steps of the server: whatever was sent may run */

#define HAS_REPLIED(o, n) (reply[COMMAND(o, n)] != 0 && reply[COMMAND(o, n)] != IGNORED)
#define RUN_COMMAND(o, n) \
  :: d_step { command[COMMAND(o, n)] == JOIN -> \
       printf("server: join of owner %d, nonce %d\n", o, n); join(o, n, 1); check() } \
  :: d_step { command[COMMAND(o, n)] == JOIN && HAS_REPLIED(o, n) -> \
       printf("server: join of owner %d, nonce %d, again; its reply is lost\n", o, n); join(o, n, 0); check() } \
  :: d_step { command[COMMAND(o, n)] == RENEW && (reply[COMMAND(o, n)] != IGNORED || holder == o || inLine[o]) -> \
       printf("server: renewal of the place of owner %d, nonce %d\n", o, n); renewPlaces(o, n, 1); check() } \
  :: d_step { command[COMMAND(o, n)] == RENEW && HAS_REPLIED(o, n) && (holder == o || inLine[o]) -> \
       printf("server: renewal of the place of owner %d, nonce %d, again; its reply is lost\n", o, n); \
       renewPlaces(o, n, 0); check() }

#if NONCES == 1
#define RUN_COMMANDS(o) RUN_COMMAND(o, 1)
#elif NONCES == 2
#define RUN_COMMANDS(o) RUN_COMMAND(o, 1) RUN_COMMAND(o, 2)
#elif NONCES == 3
#define RUN_COMMANDS(o) RUN_COMMAND(o, 1) RUN_COMMAND(o, 2) RUN_COMMAND(o, 3)
#endif

/* A client that counts as deaf makes a difference only while it is in line. */
#if SECOND_OWNER
#define STANDS(c) (inLine[c] || (c == 0 && inLine[CLIENTS]))
#else
#define STANDS(c) inLine[c]
#endif
#if CLIENTS == 2
#define DEAF_STAND(deaf) ((!((deaf) & 1) || STANDS(0)) && (!((deaf) & 2) || STANDS(1)))
#else
#define DEAF_STAND(deaf) ((!((deaf) & 1) || STANDS(0)) && (!((deaf) & 2) || STANDS(1)) && (!((deaf) & 4) || STANDS(2)))
#endif
#ifdef MUTANT_RELEASES_ANY
#define IS_LEAVING_SOMETHING(o) 1
#else
#define IS_LEAVING_SOMETHING(o) (holder == o || inLine[o])
#endif
/* Once nothing of the owner is left, a copy only looks, as anybody may. */
#define RUN_LEAVE(o, deaf) \
  :: d_step { leaveSent[o] && IS_LEAVING_SOMETHING(o) && DEAF_STAND(deaf) -> \
       printf("server: hand-over by owner %d (deaf: %d)\n", o, deaf); handOver(o, deaf); check() }
#define RUN_LOOK(deaf) \
  :: d_step { holder == NOBODY && lineLeft > 0 && DEAF_STAND(deaf) -> \
       printf("server: the free lock is handed on (deaf: %d)\n", deaf); handOver(NOBODY, deaf); check() }

#if CLIENTS == 2
#define RUN_LEAVES(o) RUN_LEAVE(o, 0) RUN_LEAVE(o, 1) RUN_LEAVE(o, 2) RUN_LEAVE(o, 3)
#define RUN_LOOKS RUN_LOOK(0) RUN_LOOK(1) RUN_LOOK(2) RUN_LOOK(3)
#else
#define RUN_LEAVES(o) RUN_LEAVE(o, 0) RUN_LEAVE(o, 1) RUN_LEAVE(o, 2) RUN_LEAVE(o, 3) \
  RUN_LEAVE(o, 4) RUN_LEAVE(o, 5) RUN_LEAVE(o, 6) RUN_LEAVE(o, 7)
#define RUN_LOOKS RUN_LOOK(0) RUN_LOOK(1) RUN_LOOK(2) RUN_LOOK(3) RUN_LOOK(4) RUN_LOOK(5) RUN_LOOK(6) RUN_LOOK(7)
#endif

#ifdef MUTANT_RENEWAL_TAKES_LAPSED
#define RENEWS(o) (holder == o || holder == NOBODY)
#else
#define RENEWS(o) (holder == o)
#endif
#define ANSWERS(state, o) \
  if :: state[CLIENT(o)] == SENT && OWNER(CLIENT(o)) == o -> state[CLIENT(o)] = ANSWERED :: else fi
#define RUN_RENEWAL(o) \
  :: d_step { renewSent[o] && RENEWS(o) -> \
       printf("server: renewal of the hold of owner %d\n", o); \
       if :: holder == NOBODY -> checkOrder(o, 0); holder = o :: else fi; \
       prolong(o, PLACE_LEASE); ANSWERS(keeping, o); check() }
#if FIXED != 0
#define RUN_FIXED(o) \
  :: d_step { confirmSent[o] && holder == o -> \
       printf("server: confirmation by owner %d\n", o); confirm(o); ANSWERS(keeping, o); check() } \
  :: d_step { extendSent[o] && holder == o -> \
       printf("server: extension for owner %d\n", o); prolong(o, EXTENDED_LEASE); ANSWERS(extending, o); check() }
#else
#define RUN_FIXED(o)
#endif

#define SERVER_FOR(o) RUN_COMMANDS(o) RUN_LEAVES(o) RUN_RENEWAL(o) RUN_FIXED(o)

/* ---- the steps of a client */

#define READ_JOIN(c, n) (phase[c] == JOINING && joinNonce[c] == n && reply[COMMAND(OWNER(c), n)]
#define READ_RENEWAL(c, n) (IS_WAITING(c) && command[COMMAND(OWNER(c), n)] == RENEW && reply[COMMAND(OWNER(c), n)]
#define KNOWS_OF_LOSS(c, n) AFTER_FORCE(knowsOfLoss[OWNER(c)] = repliedSince[COMMAND(OWNER(c), n)])
#define READS(c, n) \
  :: d_step { READ_JOIN(c, n) == HELD) -> \
       printf("client %d: its join %d tells that it is in line\n", c, n); \
       KNOWS_OF_LOSS(c, n); \
       reply[COMMAND(OWNER(c), n)] = IGNORED; confirmed(c, n); hasTicket[c] = 1; isRenewed[c] = 1; joinNonce[c] = 0; \
       phase[c] = (grantNonce[c] != 0 -> WOKEN : SLEEPING); check() } \
  :: d_step { READ_JOIN(c, n) == ACQUIRED || READ_JOIN(c, n) == UNCONFIRMED)) -> \
       printf("client %d: its join %d tells that it has the lock\n", c, n); \
       told = reply[COMMAND(OWNER(c), n)]; next = JOIN_AGE(c, n); \
       if \
       :: next < ASKED_COUNTED(c) -> hold(c, ASKED_COUNTED(c) - next); if :: told == UNCONFIRMED -> keep(c) :: else fi \
       :: else -> leave(c) \
       fi; told = 0; next = 0; check() } \
  :: d_step { READ_RENEWAL(c, n) == IN_LINE) -> \
       printf("client %d: its renewal %d tells that it is in line\n", c, n); \
       KNOWS_OF_LOSS(c, n); \
       reply[COMMAND(OWNER(c), n)] = IGNORED; confirmed(c, n) } \
  :: d_step { READ_RENEWAL(c, n) == YOURS) -> \
       printf("client %d: its renewal %d tells that the lock is its\n", c, n); \
       reply[COMMAND(OWNER(c), n)] = IGNORED; grantNonce[c] = n; grantAge[c] = age[COMMAND(OWNER(c), n)]; \
       if :: phase[c] == SLEEPING -> phase[c] = WOKEN :: else fi } \
  :: d_step { READ_RENEWAL(c, n) == GONE) -> \
       printf("client %d: its renewal %d tells that its place is gone\n", c, n); \
       reply[COMMAND(OWNER(c), n)] = IGNORED; gone(c, n) } \
  :: d_step { IS_WAITING(c) && grantNonce[c] == 0 && ((grants[OWNER(c)] >> n) & 1) && IS_TAKEN(c, n) -> \
       printf("client %d: hears the grant with nonce %d\n", c, n); granted(c, n) } \
  HEARS_FORMER(c, n)
#ifdef MUTANT_TAKES_OTHERS
#define HEARS_FORMER(c, n) \
  :: d_step { IS_WAITING(c) && grantNonce[c] == 0 && isSecond[c] && ((grants[c] >> n) & 1) && IS_TAKEN(c, n) -> \
       printf("client %d: hears the grant with nonce %d of its former wait\n", c, n); granted(c, n) }
#else
#define HEARS_FORMER(c, n)
#endif

#if NONCES == 1
#define READS_ALL(c) READS(c, 1)
#elif NONCES == 2
#define READS_ALL(c) READS(c, 1) READS(c, 2)
#elif NONCES == 3
#define READS_ALL(c) READS(c, 1) READS(c, 2) READS(c, 3)
#endif

#if FIXED != 0
#define EXTENDS(c) \
  :: d_step { phase[c] == HOLDING && reliesFor[c] > 0 && IS_FIXED(c) && extending[c] == 0 -> \
       printf("client %d: sends an extension\n", c); extending[c] = SENT; extendSent[OWNER(c)] = 1 } \
  :: d_step { phase[c] == HOLDING && reliesFor[c] > 0 && extending[c] == ANSWERED -> \
       printf("client %d: its hold is extended\n", c); \
       relyOn(c, EXTENDED_LEASE, extendingAge[c]); extending[c] = READ; extendingAge[c] = OLD; check() }
#else
#define EXTENDS(c)
#endif

#define MAY_SEND(c) (lastNonce[c] < (c == 0 -> NONCES : OTHERS_NONCES))
#define CLIENT_STEPS(c) \
  :: d_step { phase[c] == IDLE -> printf("client %d: sends a join\n", c); sending(c, JOIN) } \
  :: d_step { phase[c] == JOINING && MAY_SEND(c) -> \
       printf("client %d: no answer; sends a join, nonce %d\n", c, lastNonce[c] + 1); forget(c); sending(c, JOIN) } \
  :: d_step { phase[c] == WOKEN && grantNonce[c] != 0 && IS_ENOUGH(c) -> \
       printf("client %d: enters with the grant\n", c); \
       AFTER_FORCE(noGrantOutlivesForce = !(isForced[OWNER(c)] && knowsOfLoss[OWNER(c)]); \
                   assert(noGrantOutlivesForce); noGrantOutlivesForce = 0); \
       next = COUNTED_LEASE - grantAge[c]; if :: IS_FIXED(c) && FIXED_LEASE < next -> next = FIXED_LEASE :: else fi; \
       hold(c, next); keep(c); next = 0; check() } \
  :: d_step { phase[c] == WOKEN && (grantNonce[c] == 0 || !IS_ENOUGH(c)) && MAY_SEND(c) -> \
       printf("client %d: woken, asks; sends a join, nonce %d\n", c, lastNonce[c] + 1); \
       grantNonce[c] = 0; grantAge[c] = 0; sending(c, JOIN) } \
  :: d_step { IS_WAITING(c) && isRenewed[c] && MAY_SEND(c) -> \
       printf("client %d: sends a renewal of its place, nonce %d\n", c, lastNonce[c] + 1); sending(c, RENEW) } \
  :: d_step { IS_WAITING(c) -> printf("client %d: gives up\n", c); leave(c); check() } \
  :: d_step { phase[c] == HOLDING -> printf("client %d: releases\n", c); leave(c); check() } \
  :: d_step { phase[c] == HOLDING && reliesFor[c] > 0 && !IS_FIXED(c) && keeping[c] == 0 -> \
       printf("client %d: sends a renewal of its hold\n", c); keeping[c] = SENT; renewSent[OWNER(c)] = 1 } \
  :: d_step { phase[c] == HOLDING && reliesFor[c] > 0 && keeping[c] == ANSWERED -> \
       printf("client %d: its hold is renewed or confirmed\n", c); \
       relyOn(c, ASKED_COUNTED(c), keepingAge[c]); keeping[c] = READ; keepingAge[c] = OLD; check() } \
  EXTENDS(c) \
  READS_ALL(c)

#ifdef CALM
#include "calm.pml"
#endif

active proctype world() {
end:
  do
  :: d_step { printf("a tick\n"); tick(); check() }
  RUN_LOOKS
#ifdef CALM
  CALM_STEPS
#endif
#ifdef FORCE
  :: d_step { holder != NOBODY && !wasForced ->
       printf("server: forceUnlock\n");
       isForced[holder] = 1; wasForced = 1; holder = NOBODY; leaseLeft = 0; holdCount = 0; check() }
#endif
#ifdef FLUSH
  :: d_step { !wasForced ->
       printf("server: FLUSHALL\n");
       if :: holder != NOBODY -> isForced[holder] = 1 :: else fi;
       wasForced = 1; holder = NOBODY; leaseLeft = 0; holdCount = 0; lineLeft = 0;
       a = 0;
       do
       :: a < OWNERS -> inLine[a] = 0; placeNonce[a] = 0; placeLeft[a] = 0; a++
       :: else -> break
       od;
       a = 0; check() }
#endif
  CLIENT_STEPS(0)
  CLIENT_STEPS(1)
#if CLIENTS == 3
  CLIENT_STEPS(2)
#endif
  SERVER_FOR(0)
  SERVER_FOR(1)
#if OWNERS > 2
  SERVER_FOR(2)
#endif
#if OWNERS > 3
  SERVER_FOR(3)
#endif
  od
}
